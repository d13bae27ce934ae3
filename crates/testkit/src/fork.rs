//! Forks of a test's process: what a call does in a child, where no other thread is.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Seconds after which a child that has not ended is killed.
const LIMIT: libc::c_uint = 30;

/// What a child exits with whose body returned. Not 0: a body may end its process by itself.
const RETURNED: i32 = 77;

/// Runs `body` in a fork of this process, and waits for it. To be called within
/// [`in_child`](crate::in_child): the threads of other tests would leave their locks held.
///
/// # Errors
/// How the child ended, if not by `body` returning: by a panic, or by a signal, which is `SIGALRM` if it
/// hung.
///
/// # Panics
/// If the process cannot fork.
pub fn in_fork(body: impl FnOnce()) -> Result<(), String> {
    // SAFETY: the child runs `body`, which touches nothing of other threads but what is under test, and
    // leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "the process cannot fork");
    if child == 0 {
        // SAFETY: ends this process in time, if nothing else does.
        unsafe { libc::alarm(LIMIT) };
        let ran = catch_unwind(AssertUnwindSafe(body));
        let code = if ran.is_ok() { RETURNED } else { 1 };
        // SAFETY: ends the process, without its destructors.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is ours to write, and the child is ours.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "the child can be waited for");
    if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM {
        Err(format!("has not returned after {LIMIT} seconds"))
    } else if libc::WIFSIGNALED(status) {
        Err(format!("was ended by signal {}", libc::WTERMSIG(status)))
    } else if libc::WEXITSTATUS(status) == RETURNED {
        Ok(())
    } else {
        Err("panicked".to_owned())
    }
}

/// The answer of a future that does not wait, nor is woken.
///
/// # Panics
/// If it waits.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

/// Public calls that may wait, and what they answer in a forked child. See
/// [`fork_cases`](crate::fork_cases).
#[derive(Debug)]
pub struct ForkCase<F> {
    /// The calls, as `docs/api` names them, without the crate.
    pub calls: &'static [&'static str],
    /// Makes the call. Whether it answers as it should.
    pub answers: fn(&mut F) -> bool,
}

/// Makes each case's call in a fork of its own, with a copy of what was made before the fork.
///
/// # Panics
/// If any call hung, panicked, or answered something else. The message names all of them.
pub fn check_in_forks<F>(made: &mut F, cases: &[ForkCase<F>]) {
    let mut wrong = Vec::new();
    for ForkCase { calls, answers } in cases {
        if let Err(end) = in_fork(|| assert!(answers(made), "{calls:?} answers something else")) {
            wrong.push(format!("{}: {end}", calls.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "in a forked child:\n{}", wrong.join("\n"));
}

/// A table of calls that may wait, for [`check_in_forks`](crate::check_in_forks): on each line the paths of
/// the calls, and whether what it does with the value made before the fork is right.
///
/// `cargo xtask hygiene` reads these tables, a path in quotes at the begin of a line or behind a `|`: each
/// public call that may wait has to be in one.
#[macro_export]
macro_rules! fork_cases {
    ($made:ident: $type:ty; $($($call:literal)|+ => $answers:expr;)*) => {
        &[$($crate::ForkCase {
            calls: &[$($call),+],
            answers: {
                fn answers($made: &mut $type) -> bool {
                    $answers
                }
                answers
            },
        }),*]
    };
}
