//! Pieces that owners run inside one another.
//!
//! An owner that waits on any thread runs pieces of its own queue, and a piece may be an owner, too. So pieces nest as
//! deeply as the user's functions call each other. Each level takes 1.3 KiB of stack, or 4.4 KiB without optimization,
//! and a worker's stack is often 2 MiB. So a piece that would begin below [`PER_STACK`] others runs on the stack of
//! another thread, which this thread waits for.

use std::cell::Cell;
use std::sync::Arc;

use pool_core::internals::PoolHandle;
use sync_shim::Mutex;
use sync_shim::foreign::{discard, guarded};
use sync_shim::thread::Tag;

/// Most pieces inside one another on one stack.
const PER_STACK: u32 = 128;
/// Most stacks. A recursion that never ends then overflows the last of them, as it would without pieces, before
/// the system is out of threads.
const MOST_STACKS: u32 = 32;

sync_shim::thread_locals! {
    static NESTED: Cell<Nested> = Cell::new(Nested { pieces: 0, stacks: 1 });
}

#[derive(Clone, Copy)]
struct Nested {
    /// Number of pieces inside one another on this stack.
    pieces: u32,
    /// Number of stacks, including this one.
    stacks: u32,
}

impl Nested {
    fn set(self) {
        NESTED.with(|nested| nested.set(self));
    }
}

/// A queue whose pieces do not unwind.
pub(super) trait Runs<P>: Send + Sync {
    fn run(&self, piece: P);
}

/// Runs a piece on this stack, or on that of another thread.
pub(super) fn run<P: Send + 'static>(
    pool: &PoolHandle,
    queue: &Arc<impl Runs<P> + 'static>,
    piece: P,
) {
    let outer = NESTED.with(Cell::get);
    let mut piece = Some(piece);
    if outer.pieces >= PER_STACK && outer.stacks < MOST_STACKS {
        piece = run_elsewhere(pool, queue, piece, outer.stacks + 1);
    }
    let Some(piece) = piece else { return };
    let inner = Nested {
        pieces: outer.pieces + 1,
        ..outer
    };
    inner.set();
    queue.run(piece);
    outer.set();
}

/// Runs a piece on the stack of another thread. Returns it if the thread cannot be started.
#[cold]
fn run_elsewhere<P: Send + 'static>(
    pool: &PoolHandle,
    queue: &Arc<impl Runs<P> + 'static>,
    piece: Option<P>,
    stacks: u32,
) -> Option<P> {
    let left = Arc::new(Mutex::new(piece));
    let (queue, taken, tag) = (Arc::clone(queue), Arc::clone(&left), Tag::get());
    let body = move || {
        // The thread stands for the caller: it is an own worker if the caller is.
        tag.set();
        Nested { pieces: 0, stacks }.set();
        let piece = taken.lock().take();
        if let Some(piece) = piece {
            queue.run(piece);
        }
    };
    // USER CODE: the thread gate. A panic counts as a refusal.
    match guarded(|| pool.start_thread(body)) {
        Ok(Ok(thread)) => _ = thread.join(), // An error is impossible, because the body does not unwind.
        Ok(Err(_)) => {}
        Err(payload) => discard(payload),
    }
    left.lock().take()
}
