use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use testkit::Gate;

#[test]
fn a_gate_blocks_until_it_is_opened() {
    let gate = Gate::new();
    let passed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                gate.wait();
                assert!(gate.is_open());
                passed.fetch_add(1, Ordering::Relaxed);
            });
        }
        gate.wait_for_arrivals(3);
        assert_eq!(gate.arrivals(), 3);
        assert_eq!(passed.load(Ordering::Relaxed), 0);
        gate.open();
    });
    assert_eq!(passed.load(Ordering::Relaxed), 3);
    gate.wait(); // The gate stays open.
    assert_eq!(gate.arrivals(), 4);
}
