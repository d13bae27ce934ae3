//! Special states of a process or thread on Linux: no more threads can be started; a thread with a processor,
//! a nice value and blocked signals of its own.

#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "calls of the system with one invariant"
)]

use std::fs;
use std::mem::{MaybeUninit, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

/// The nice value of a [special thread](on_special_thread).
const SPECIAL_NICE: libc::c_int = 15;

/// Runs `body` while the operating system refuses to start threads, because the process may not have memory for
/// another stack. In a process of its own ([`in_child`](crate::in_child)). The C library keeps the stacks of ended threads;
/// threads that sleep meanwhile take these first.
///
/// # Panics
/// If threads can be started nevertheless. With the panic of `body`, after threads can be started again.
pub fn without_threads<R>(body: impl FnOnce() -> R) -> R {
    const FOR_SMALL_OBJECTS: libc::rlim_t = 1 << 20; // Less than a stack.
    let pages = fs::read_to_string("/proc/self/statm").expect("procfs is mounted");
    let pages = pages.split(' ').next().and_then(|it| it.parse().ok());
    let pages: libc::rlim_t = pages.expect("the first number is the size in pages");
    let mut before = MaybeUninit::uninit();
    // SAFETY: the calls read or write only the given limits, which the first one has written.
    let before = unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE).cast_unsigned();
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, before.as_mut_ptr()), 0);
        let before = before.assume_init();
        let limit = libc::rlimit {
            rlim_cur: pages * page + FOR_SMALL_OBJECTS,
            ..before
        };
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &raw const limit), 0);
        before
    };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        const MOST_KEPT: usize = 64;
        let (_end, ends) = mpsc::channel::<()>();
        let ends = Arc::new(Mutex::new(ends));
        let started = (0..MOST_KEPT).take_while(|_| {
            let ends = Arc::clone(&ends);
            let sleeps = move || _ = ends.lock().map(|ends| ends.recv());
            thread::Builder::new().spawn(sleeps).is_ok()
        });
        assert!(started.count() < MOST_KEPT, "threads can be started");
        body()
    }));
    // SAFETY: as above.
    let restored = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const before) };
    assert_eq!(restored, 0);
    ran.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Runs `body` on a thread that has one processor and a high nice value, which threads started by it inherit.
///
/// # Panics
/// With the panic of `body`.
pub fn on_special_thread<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    let run = || {
        // SAFETY: the calls change numbers of the calling thread; the set is written before it is read.
        unsafe {
            let mut one = MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init();
            let first = (0..1024).find(|&cpu| libc::CPU_ISSET(cpu, &processors()));
            libc::CPU_SET(first.expect("there is a processor"), &mut one);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const one);
            libc::setpriority(libc::PRIO_PROCESS, 0, SPECIAL_NICE);
        }
        body()
    };
    let ran = thread::scope(|scope| scope.spawn(run).join());
    ran.unwrap_or_else(|payload| resume_unwind(payload))
}

fn processors() -> libc::cpu_set_t {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the call writes only to the set, for which all zeros are valid.
    unsafe {
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr());
        set.assume_init()
    }
}

/// Waits until each thread with this name (of which Linux keeps 15 bytes) has the processors and the nice value
/// of the main thread, and blocks signals. The watchdog of the test ends a wait in vain.
///
/// # Panics
/// Without procfs.
pub fn wait_for_service_threads(name: &str) {
    let name = &name[..name.len().min(15)];
    loop {
        let threads = fs::read_dir("/proc/self/task").expect("procfs is mounted");
        let threads = threads.filter_map(|thread| {
            let path = thread.expect("procfs can be listed").path();
            // A thread that has just ended has no files.
            let named = fs::read_to_string(path.join("comm")).ok()?;
            (named.trim_end() == name).then_some(path)
        });
        let threads: Vec<_> = threads.collect();
        let main = State::of(&std::path::Path::new("/proc/self/task").join(main_thread()));
        let main = main.expect("there is a main thread");
        let serves = |path: &std::path::PathBuf| {
            State::of(path).is_none_or(|it| {
                it.processors == main.processors && it.has_nice_of(&main) && it.blocks_signals()
            })
        };
        if !threads.is_empty() && threads.iter().all(serves) {
            return;
        }
        thread::yield_now();
    }
}

fn main_thread() -> String {
    std::process::id().to_string()
}

/// What a thread inherits from its starter.
struct State {
    processors: String,
    nice: i32,
    blocked: u64,
}

impl State {
    fn of(path: &std::path::Path) -> Option<Self> {
        let status = fs::read_to_string(path.join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.expect("Linux has this field").trim().to_owned()
        };
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        // After the name, which may contain blanks, the nice value is the 17th field.
        let (_, fields) = stat.rsplit_once(") ")?;
        let nice = fields.split(' ').nth(16)?.parse().ok()?;
        Some(Self {
            processors: field("Cpus_allowed:"),
            nice,
            blocked: u64::from_str_radix(&field("SigBlk:"), 16).ok()?,
        })
    }

    /// A process without privileges may not lower a nice value.
    fn has_nice_of(&self, main: &Self) -> bool {
        self.nice == main.nice || self.nice == SPECIAL_NICE && !may_lower_nice()
    }

    fn blocks_signals(&self) -> bool {
        let blocks = |signal: libc::c_int| self.blocked >> (signal - 1) & 1 == 1;
        blocks(libc::SIGUSR1) && blocks(libc::SIGTERM) && !blocks(libc::SIGSEGV)
    }
}

fn may_lower_nice() -> bool {
    let lower = || {
        // SAFETY: the calls change a number of the calling thread.
        unsafe {
            libc::setpriority(libc::PRIO_PROCESS, 0, SPECIAL_NICE);
            libc::setpriority(libc::PRIO_PROCESS, 0, 0) == 0
        }
    };
    thread::scope(|scope| scope.spawn(lower).join().expect("it does not panic"))
}
