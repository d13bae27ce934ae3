//! Processes that spin while a pool is measured, one per core.

use std::error::Error;
use std::io::{self, Read, Write};
use std::process::{self, Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::meter::cores;

/// Spinning processes. They end when this is dropped, or when this process ends in any way.
pub struct Neighbours(Vec<Child>);

/// The standard inputs of the processes. They carry commands, and the processes end when they are
/// closed.
static INPUTS: Mutex<Vec<ChildStdin>> = Mutex::new(Vec::new());

const SPIN: u8 = b'1';
const REST: u8 = b'0';

impl Neighbours {
    pub fn start() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let mut neighbours = Self(Vec::new());
        for _ in 0..cores() {
            let mut child = Command::new(&program)
                .arg("spin")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()?;
            inputs(|inputs| inputs.extend(child.stdin.take()));
            neighbours.0.push(child);
        }
        Ok(neighbours)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        inputs(Vec::clear);
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

fn inputs(change: impl FnOnce(&mut Vec<ChildStdin>)) {
    change(&mut INPUTS.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Pauses the processes, if there are any, during a preparation that is not measured. Starting ten
/// thousand threads next to them would take most of a run.
pub fn resting(prepare: impl FnOnce()) {
    let send = |what| {
        inputs(|inputs| {
            for input in inputs {
                // A process that has ended cannot disturb the preparation, and the run only lacks
                // its noise.
                let _ = input.write_all(&[what]);
            }
        });
    };
    send(REST);
    prepare();
    send(SPIN);
}

/// `compare spin`: keeps one core busy until standard input ends, except while paused.
pub fn spin() -> Result<(), Box<dyn Error>> {
    static RESTING: AtomicBool = AtomicBool::new(false);
    thread::Builder::new().spawn(|| {
        for byte in io::stdin().lock().bytes() {
            match byte {
                // Relaxed: the spinning thread only has to see the value soon.
                Ok(byte) => RESTING.store(byte == REST, Relaxed),
                Err(_) => break,
            }
        }
        process::exit(0);
    })?;
    loop {
        if RESTING.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        } else {
            std::hint::spin_loop();
        }
    }
}
