//! Processes that spin beside the measured one, one per core.

use std::error::Error;
use std::io::{self, Read};
use std::process::{self, Child, Command, Stdio};
use std::thread;

use crate::meter::cores;

/// Spinning processes. They end when this is dropped, or when this process ends however it does.
pub struct Neighbours(Vec<Child>);

impl Neighbours {
    pub fn start() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let mut neighbours = Self(Vec::new());
        for _ in 0..cores() {
            let child = Command::new(&program)
                .arg("spin")
                .stdin(Stdio::piped()) // Closed with us; that ends it.
                .stdout(Stdio::null())
                .spawn()?;
            neighbours.0.push(child);
        }
        Ok(neighbours)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// `compare spin`: keeps one core busy until standard input ends.
pub fn spin() -> Result<(), Box<dyn Error>> {
    thread::Builder::new().spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        process::exit(0);
    })?;
    loop {
        std::hint::spin_loop();
    }
}
