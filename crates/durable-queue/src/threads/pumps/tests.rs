//! Threads that run pumps of the test.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use sync_shim::ManualClock;
use testkit::Gate;

use super::*;

/// A pump that sends its number at each pass, and makes the passes that the test wants.
struct Fake {
    passes: Sender<PumpId>,
    id: PumpId,
    step: Box<dyn FnMut() -> Step + Send>,
    ends: Sender<bool>,
    /// Its drop waits here.
    dropped: Option<Gate>,
}

impl Pass for Fake {
    fn pass(&mut self, _: Instant) -> Step {
        self.passes.send(self.id).expect("the test looks");
        (self.step)()
    }

    fn end(&mut self, cut_short: bool) {
        self.ends.send(cut_short).expect("the test looks");
        if cut_short {
            std::panic::resume_unwind(Box::new("as it does with a waker that panics"));
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(gate) = &self.dropped {
            gate.wait();
        }
    }
}

struct World {
    pumps: Arc<Pumps>,
    passes: (Sender<PumpId>, Receiver<PumpId>),
    ends: (Sender<bool>, Receiver<bool>),
}

fn world() -> World {
    World {
        pumps: Pumps::new(SharedClock::new(ManualClock::new())),
        passes: channel(),
        ends: channel(),
    }
}

impl World {
    fn fake(&self, id: PumpId, step: impl FnMut() -> Step + Send + 'static) -> Fake {
        Fake {
            passes: self.passes.0.clone(),
            id,
            step: Box::new(step),
            ends: self.ends.0.clone(),
            dropped: None,
        }
    }

    fn add(&self, step: impl FnMut() -> Step + Send + 'static) -> io::Result<PumpId> {
        let id = self.pumps.new_id();
        self.pumps.add(id, Box::new(self.fake(id, step)))?;
        Ok(id)
    }

    /// A pump that ends when it is woken.
    fn add_sleeper(&self) -> io::Result<PumpId> {
        let mut is_first = true;
        self.add(move || {
            if mem::take(&mut is_first) {
                Step::Sleep(None)
            } else {
                Step::End { cut_short: false }
            }
        })
    }

    fn next_pass(&self) -> PumpId {
        self.passes.1.recv().expect("there is a pump")
    }

    fn live(&self) -> usize {
        self.pumps.state.lock().roster.live()
    }
}

#[testkit::test]
fn a_pass_that_panics_ends_its_pump_and_no_thread() {
    let world = world();
    let sleeper = world.add_sleeper().expect("a thread");
    assert_eq!(world.next_pass(), sleeper);
    let panics = world.add(|| std::panic::resume_unwind(Box::new("as a clock does")));
    let panics = panics.expect("a thread");
    assert_eq!(world.next_pass(), panics);
    world.pumps.join(panics);
    assert_eq!(world.ends.1.recv(), Ok(true), "cut short");
    world.pumps.wake(sleeper);
    assert_eq!(world.next_pass(), sleeper);
    assert_eq!(world.ends.1.recv(), Ok(false));
    world.pumps.join(sleeper);
    assert_eq!(world.live(), 0);
}

#[testkit::test]
fn a_join_waits_for_the_drop_of_the_pump() {
    let (world, gate) = (world(), Gate::new());
    let id = world.pumps.new_id();
    let mut fake = world.fake(id, || Step::End { cut_short: false });
    fake.dropped = Some(gate.clone());
    world.pumps.add(id, Box::new(fake)).expect("a thread");
    gate.wait_for_arrivals(1);
    assert_eq!(world.ends.1.recv(), Ok(false), "its end comes before");
    let joined = Arc::new(AtomicBool::new(false));
    let joins = {
        let (pumps, joined) = (Arc::clone(&world.pumps), Arc::clone(&joined));
        thread::spawn(move || {
            pumps.join(id);
            joined.store(true, SeqCst);
        })
    };
    for _ in 0..1_000 {
        thread::yield_now(); // It may not return, however often it could.
        assert!(!joined.load(SeqCst));
    }
    gate.open();
    joins.join().expect("no panic");
    assert!(!world.pumps.state.lock().roster.has(id));
    world.pumps.join(id); // Again.
}

#[testkit::test]
fn without_a_thread_a_pump_is_refused_and_with_one_it_is_run() {
    let world = world();
    world.pumps.refuses.store(true, SeqCst);
    let refused = world.add_sleeper();
    assert_eq!(refused.expect_err("no thread").kind(), io::ErrorKind::Other);
    assert_eq!(world.live(), 0);

    world.pumps.refuses.store(false, SeqCst);
    let first = world.add_sleeper().expect("a thread");
    assert_eq!(world.next_pass(), first);
    world.pumps.refuses.store(true, SeqCst);
    let second = world
        .add_sleeper()
        .expect("the other pump's thread runs it");
    assert_eq!(world.next_pass(), second);
    for id in [first, second] {
        world.pumps.wake(id);
        assert_eq!(world.next_pass(), id);
        world.pumps.join(id);
    }
    assert_eq!(world.live(), 0);
}
