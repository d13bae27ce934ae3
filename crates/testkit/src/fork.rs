//! Forks of a test's process: the behaviour of calls in a child, which has only one thread.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Seconds after which a child that has not ended is killed.
const LIMIT: libc::c_uint = 30;

/// The exit code of a child whose body returned. Not 0, because a body may exit by itself.
const RETURNED: i32 = 77;

/// Runs `body` in a fork of this process and waits for it. Must be called within
/// [`in_child`](crate::in_child), because the threads of other tests would leave their locks held.
///
/// # Errors
/// How the child ended, if not by returning from `body`: by a panic or by a signal. The signal is
/// `SIGALRM` if it hung.
///
/// # Panics
/// If the process cannot fork.
pub fn in_fork(body: impl FnOnce()) -> Result<(), String> {
    // SAFETY: the child runs `body`, which uses nothing of other threads except the objects under
    // test, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "the process cannot fork");
    if child == 0 {
        // SAFETY: `alarm` has no preconditions. It ends a child that hangs.
        unsafe { libc::alarm(LIMIT) };
        let ran = catch_unwind(AssertUnwindSafe(body));
        let code = if ran.is_ok() { RETURNED } else { 1 };
        // SAFETY: `_exit` has no preconditions.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is a valid, exclusive reference, and `child` is a child of this process.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "the child can be waited for");
    if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM {
        Err(format!("did not return within {LIMIT} seconds"))
    } else if libc::WIFSIGNALED(status) {
        Err(format!("was ended by signal {}", libc::WTERMSIG(status)))
    } else if libc::WEXITSTATUS(status) == RETURNED {
        Ok(())
    } else {
        Err("panicked".to_owned())
    }
}

/// Returns the result of a future that is ready at its first poll.
///
/// # Panics
/// If it is pending.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

/// Public calls that may wait, and a check of their result in a forked child. See
/// [`fork_cases`](crate::fork_cases).
#[derive(Debug)]
pub struct ForkCase<F> {
    /// The calls as `docs/api` names them, without the crate.
    pub calls: &'static [&'static str],
    /// Makes the call. Returns whether the result is right.
    pub answers: fn(&mut F) -> bool,
}

/// Makes each case's call in its own fork, with a copy of the state made before the fork.
///
/// # Panics
/// If any call hung, panicked, or returned a wrong result. The message names all of them.
pub fn check_in_forks<F>(made: &mut F, cases: &[ForkCase<F>]) {
    let mut wrong = Vec::new();
    for ForkCase { calls, answers } in cases {
        if let Err(end) = in_fork(|| assert!(answers(made), "{calls:?} returned a wrong result")) {
            wrong.push(format!("{}: {end}", calls.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "in a forked child:\n{}", wrong.join("\n"));
}

/// A table of calls that may wait, for [`check_in_forks`](crate::check_in_forks). Each line has the
/// paths of the calls, and an expression that makes the call on the state made before the fork and
/// checks its result.
///
/// `cargo xtask hygiene` reads these tables: a path in quotes at the start of a line or after a
/// `|`. Each public call that may wait must be in one.
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
