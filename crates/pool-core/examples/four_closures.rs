//! A minimal program with a pool. `cargo xtask hygiene --build` prints the size of its binary.

use pool_core::Pool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::builder().capacity(2).build()?;
    for number in 1..=4 {
        pool.submit(move || println!("{number}"))?;
    }
    pool.wait_idle()?;
    Ok(())
}
