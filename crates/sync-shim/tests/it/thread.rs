use std::cell::RefCell;
use std::io;
use std::sync::mpsc::{Sender, channel};

use sync_shim::Parker;
use sync_shim::thread::{Tag, ThreadOptions, spawn_thread};
use testkit::DropCounter;

/// Fails to start a thread; its body is dropped without running.
fn refused(options: ThreadOptions<'_>) -> io::Error {
    let drops = DropCounter::new();
    let token = drops.token();
    let refusal = spawn_thread(options, move || {
        let _token = &token;
        unreachable!("the thread does not start");
    });
    assert_eq!(drops.dropped(), 1);
    refusal.expect_err("no thread starts")
}

#[testkit::test]
fn a_thread_has_its_name_and_can_be_joined() {
    let (send, receive) = channel();
    let options = ThreadOptions {
        name: Some("a name of more than fifteen bytes"),
        stack_size: Some(1 << 20),
        gate: Some(&|| Ok(())),
    };
    let thread = spawn_thread(options, move || {
        send.send(std::thread::current().name().map(str::to_owned))
            .unwrap();
    });
    thread.unwrap().join().unwrap();
    let name = receive.recv().unwrap();
    assert_eq!(name.as_deref(), Some("a name of more than fifteen bytes"));
}

#[testkit::test]
fn join_returns_the_payload_of_a_panic() {
    let thread = spawn_thread(ThreadOptions::default(), || panic!("for the joiner"));
    let payload = thread.unwrap().join().expect_err("it panicked");
    assert_eq!(payload.downcast_ref(), Some(&"for the joiner"));
}

#[test]
fn a_gate_that_fails_refuses_the_thread() {
    let options = ThreadOptions {
        gate: Some(&|| Err(io::ErrorKind::QuotaExceeded.into())),
        ..ThreadOptions::default()
    };
    assert_eq!(refused(options).kind(), io::ErrorKind::QuotaExceeded);
}

#[test]
fn a_name_with_an_inner_nul_is_refused() {
    let options = ThreadOptions {
        name: Some("a\0b"),
        ..ThreadOptions::default()
    };
    assert_eq!(refused(options).kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_stack_larger_than_memory_is_refused() {
    for bytes in [usize::MAX / 2, usize::MAX] {
        refused(ThreadOptions {
            stack_size: Some(bytes),
            ..ThreadOptions::default()
        });
    }
}

#[testkit::test]
fn a_tag_is_unique_to_its_thread() {
    let tag = Tag { group: 3, depth: 1 };
    let thread = spawn_thread(ThreadOptions::default(), move || {
        assert_eq!(Tag::get(), Tag::NONE);
        tag.set();
        assert_eq!(Tag::get(), tag);
    });
    thread.unwrap().join().unwrap();
    assert_eq!(Tag::get(), Tag::NONE);
}

/// Reports which thread-locals are readable in the destructor of another one.
struct Last(Sender<Tag>);

impl Drop for Last {
    fn drop(&mut self) {
        let parker = Parker::of_thread();
        parker.unpark();
        parker.park();
        self.0.send(Tag::get()).expect("the test listens");
    }
}

std::thread_local! {
    static BEFORE: RefCell<Option<Last>> = const { RefCell::new(None) };
    static AFTER: RefCell<Option<Last>> = const { RefCell::new(None) };
}

#[testkit::test]
fn tag_and_parker_work_in_the_destructors_of_thread_locals() {
    let (send, receive) = channel();
    let tag = Tag { group: 5, depth: 2 };
    let thread = spawn_thread(ThreadOptions::default(), move || {
        // The order of destructors is unspecified: register one before ours and one after it.
        BEFORE.set(Some(Last(send.clone())));
        _ = Parker::of_thread();
        tag.set();
        AFTER.set(Some(Last(send)));
    });
    thread.unwrap().join().unwrap();
    assert_eq!(receive.iter().collect::<Vec<_>>(), [tag, tag]);
}

/// The timer slack of a thread in nanoseconds, as Linux reports it.
#[cfg(target_os = "linux")]
fn slack(thread: &str) -> u64 {
    // Each thread has a folder here, although the parent folder does not list it.
    let file = format!("/proc/{thread}/timerslack_ns");
    let slack = std::fs::read_to_string(file).expect("Linux reports it");
    slack.trim().parse().expect("a number")
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn precise_timers_affect_the_calling_thread_only() {
    let mine = || {
        let link = std::fs::read_link("/proc/thread-self").expect("Linux reports it");
        let thread = link.file_name().expect("it ends with the thread's number");
        slack(&thread.to_string_lossy())
    };
    let before = mine();
    let precise = std::thread::spawn(move || {
        sync_shim::thread::set_precise_timers();
        mine()
    });
    assert_eq!(precise.join().expect("it does not panic"), 1);
    assert_eq!(mine(), before);
    assert!(before > 1);
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn the_alarm_thread_has_precise_timers() {
    use sync_shim::Clock;
    let waker = testkit::CountingWaker::new();
    let past = std::time::Instant::now();
    let _alarm = sync_shim::MonotonicClock.wake_at(past, waker.waker());
    waker.wait_for_wakes(1); // The alarm thread runs by now.
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux lists threads");
    let serving = threads.flatten().filter(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name.trim() == "anthill-alarms")
    });
    let slacks: Vec<_> = serving
        .map(|thread| slack(&thread.file_name().to_string_lossy()))
        .collect();
    assert_eq!(slacks, [1]);
}

#[cfg(target_os = "linux")]
mod service {
    use std::time::Instant;

    use sync_shim::thread::{ThreadOptions, spawn_service};
    use sync_shim::{Clock, MonotonicClock};
    use testkit::{
        CountingWaker, Gate, in_child, on_special_thread, wait_for_service_threads, without_threads,
    };

    /// The signals that the calling thread blocks.
    fn blocked() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status");
        let status = status.expect("procfs is mounted");
        let line = status.lines().find(|line| line.starts_with("SigBlk:"));
        line.expect("Linux has this field").to_owned()
    }

    #[testkit::test]
    fn a_service_thread_does_not_inherit_from_its_starter() {
        let gate = Gate::new();
        let stays = gate.clone();
        let thread = on_special_thread(|| {
            let options = ThreadOptions {
                name: Some("service"),
                ..ThreadOptions::default()
            };
            let before = blocked();
            let thread = spawn_service(options, move || stays.wait());
            assert_eq!(blocked(), before, "the starter's mask is restored");
            thread.unwrap()
        });
        wait_for_service_threads("service");
        gate.open();
        thread.join().unwrap();
    }

    #[testkit::test]
    fn a_refused_service_thread_leaves_the_starters_signals_as_they_were() {
        let test =
            "thread::service::a_refused_service_thread_leaves_the_starters_signals_as_they_were";
        let end = in_child(test, || {
            let before = blocked();
            without_threads(|| spawn_service(ThreadOptions::default(), || ()).unwrap_err());
            assert_eq!(blocked(), before);
        });
        assert!(end.is_ok(), "{end:?}");
    }

    #[testkit::test]
    fn the_alarm_thread_does_not_inherit_from_the_first_caller() {
        let test = "thread::service::the_alarm_thread_does_not_inherit_from_the_first_caller";
        let end = in_child(test, || {
            let counter = CountingWaker::new();
            let alarm =
                on_special_thread(|| MonotonicClock.wake_at(Instant::now(), counter.waker()));
            counter.wait_for_wakes(1);
            wait_for_service_threads("anthill-alarms");
            drop(alarm);
        });
        assert!(end.is_ok(), "{end:?}");
    }
}
