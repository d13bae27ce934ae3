//! A job that runs ten times a second and is slow once, then a cancelled reminder. Prints the
//! events with their times.
//!
//! `cargo run -p scheduled-pool --example periodic`

use std::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pool_core::Pool;
use scheduled_pool::{Missed, ScheduledPool, Series};

const TENTH: Duration = Duration::from_millis(100);

#[expect(
    clippy::disallowed_methods,
    reason = "an example for the eye, by the real time"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder().name("jobs").capacity(2).build()?;
    let scheduled = ScheduledPool::new(pool);
    let start = Instant::now();
    let say = move |what: &str| println!("{:>4} ms  {what}", start.elapsed().as_millis());

    for missed in [Missed::Skip, Missed::Burst, Missed::Delay] {
        say(&format!("a job every 100 ms; missed ticks: {missed:?}"));
        let mut run = 0;
        let series = Series::at_fixed_rate(TENTH).missed(missed);
        let job = scheduled.spawn_series(Duration::ZERO, &series, move || {
            run += 1;
            if run == 2 {
                say("  run 2 begins, and takes 250 ms");
                sleep(TENTH * 5 / 2);
                say("  run 2 ends");
            } else {
                say(&format!("  run {run}"));
            }
        })?;
        // Another task is due meanwhile, and does not wait for the slow run.
        let note = scheduled.spawn_after(TENTH * 3 / 2, move || say("  a note, in between"))?;
        note.join()?;
        sleep(TENTH * 3);
        job.cancel();
        say(&format!(
            "cancelled after {} runs, ticks missed: {}",
            job.runs(),
            job.missed()
        ));
    }

    let reminder = scheduled.spawn_after(TENTH, move || say("this is never printed"))?;
    assert!(reminder.cancel());
    let last =
        scheduled.spawn_after(TENTH, move || say("pending at the release, and still run"))?;
    scheduled.release();
    scheduled.wait_released()?;
    last.join()?;
    let stats = scheduled.stats();
    println!(
        "{} runs, none early, the latest {:?} late",
        stats.runs, stats.max_lateness
    );
    Ok(())
}
