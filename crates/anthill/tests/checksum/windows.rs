//! The window between the threads: which one waits for which, and what a stop leaves.

use crate::report::Report;
use crate::window::{Turn, Window};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use testkit::{LIMIT, watchdog};

const DIGEST: [u8; 32] = [7; 32];

fn print(turn: Turn) -> Vec<Report> {
    match turn {
        Turn::Print(reports) => reports,
        Turn::Finished => panic!("finished"),
        Turn::Stopped(signal) => panic!("stopped by {signal}"),
    }
}

#[test]
fn a_walker_and_a_printer_pass_everything_through_a_single_place() {
    const FILES: usize = 10_000;
    let window = Arc::new(Window::new(1));
    let mut names = Vec::new();
    watchdog(LIMIT, || {
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..FILES {
                    let ticket = window.reserve(n.to_string().into()).expect("not stopped");
                    ticket.fill(Ok(DIGEST));
                }
                window.close();
            });
            while names.len() < FILES {
                names.extend(print(window.next()).into_iter().map(|report| report.name));
            }
        });
    });
    assert!(matches!(window.next(), Turn::Finished));
    let expected: Vec<_> = (0..FILES).map(|n| PathBuf::from(n.to_string())).collect();
    assert!(
        names == expected,
        "a name is missing, twice, or out of order"
    );
}

/// Asserts that `wake` ends `wait`, which answers true, on a window of one place.
///
/// `wake` is called when the other thread is inside `wait`, or just before it: often enough,
/// that most calls find it inside.
fn assert_wakes(wait: impl Fn(&Arc<Window>) -> bool + Sync, wake: impl Fn(&Window)) {
    let once = || {
        let window = Arc::new(Window::new(1));
        let (about_to_wait, started) = channel();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                about_to_wait.send(()).expect("it is received");
                wait(&window)
            });
            started.recv().expect("it is sent");
            wake(&window);
            waiter.join().expect("it does not panic")
        })
    };
    watchdog(LIMIT, || assert!((0..200).all(|_| once())));
}

#[test]
fn a_stop_frees_a_walker_that_waits_for_room() {
    let two = |window: &Arc<Window>| {
        let _held = window.reserve("held".into());
        window.reserve("next".into()).is_none()
    };
    assert_wakes(two, |window| window.stop(2));
}

#[test]
fn a_stop_frees_a_printer() {
    let next = |window: &Arc<Window>| matches!(window.next(), Turn::Stopped(2));
    assert_wakes(next, |window| window.stop(2));
}

#[test]
fn closing_frees_a_printer() {
    let next = |window: &Arc<Window>| matches!(window.next(), Turn::Finished);
    assert_wakes(next, Window::close);
}

#[test]
fn a_stop_leaves_what_was_complete_in_order_and_takes_nothing_more() {
    let window = Arc::new(Window::new(4));
    let mut tickets = ["a", "b", "c"].map(|name| window.reserve(name.into()));
    let mut take = |index: usize| tickets[index].take().expect("not taken yet");
    take(0).fill(Ok(DIGEST));
    take(2).fill(Ok(DIGEST));

    window.stop(15);
    window.stop(2);
    window.close();
    take(1).fill(Ok(DIGEST));
    assert!(window.reserve("d".into()).is_none());

    let complete = print(window.next());
    assert_eq!(complete.len(), 1);
    assert_eq!(complete[0].name, Path::new("a"));
    assert!(matches!(window.next(), Turn::Stopped(15)));
}

#[test]
fn a_ticket_that_is_dropped_by_a_panic_reports_its_file_as_unread() {
    let window = Arc::new(Window::new(4));
    let ticket = window.reserve("lost".into()).expect("not stopped");
    let task = thread::spawn(move || {
        assert_eq!(ticket.name(), Path::new("lost"));
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(task.join().is_err());

    let reports = print(window.next());
    assert_eq!(reports[0].name, Path::new("lost"));
    let error = reports[0].result.as_ref().expect_err("it was not read");
    assert_eq!(error.to_string(), "its task did not run to the end");
}

#[test]
fn a_closed_window_is_finished_only_when_its_last_place_is_printed() {
    let window = Arc::new(Window::new(4));
    let ticket = window.reserve("last".into()).expect("not stopped");
    window.close();
    ticket.fill(Ok(DIGEST));

    let reports = print(window.next());
    assert_eq!(reports[0].result.as_ref().ok(), Some(&DIGEST));
    assert!(matches!(window.next(), Turn::Finished));
}
