//! Orders that are cancelled unless they are paid in time: most timeouts are cancelled.

use std::error::Error;
use std::thread;
use std::time::Duration;

use anthill::DelayQueue;

fn main() -> Result<(), Box<dyn Error>> {
    let unpaid = DelayQueue::new();
    let overdue = {
        let unpaid = unpaid.clone();
        // Ends with `Closed` once no entry can fall due.
        thread::spawn(move || {
            while let Ok(order) = unpaid.take() {
                println!("order {}: not paid in time", order.value);
            }
        })
    };
    let time_to_pay = Duration::from_millis(200);
    let first = unpaid.push(1, time_to_pay)?;
    unpaid.push(2, time_to_pay)?;
    if unpaid.cancel(first).is_some() {
        println!("order 1: paid"); // `None` would mean that the order had timed out first.
    }
    unpaid.close(); // No more orders. Waiting ones still fall due.
    overdue.join().expect("it does not panic");
    Ok(())
}
