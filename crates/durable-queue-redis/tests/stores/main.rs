//! Redis or Valkey: the contract and store-specific tests, on a real server.
//!
//! `cargo xtask stores up` starts one, and `target/stores/env` contains its address. Without the variable a
//! test passes, and the binary reports on the terminal what was skipped.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod announcing;
mod cluster;
mod contents;
mod counting;
mod crashing;
mod encrypting;
mod failing;
mod failover;
mod grouping;
mod kinds;
mod limiting;
mod losing;
mod opening;
mod refusing;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use ::redis::{Client, Cmd, Connection, FromRedisValue, cmd};
use durable_queue_redis::RedisOptions;
use durable_queue_redis::RedisStore;
use durable_queue_testing::conformance::Fixture;
use durable_queue_testing::{ManualStoreClock, SimStore};

use durable_queue_tests::address::{REDIS, address};
use durable_queue_tests::anywhere::works_on_any_thread;
use durable_queue_tests::cancelling::handlers_learn_of_cancels_and_jobs_keep_their_failures;
use durable_queue_tests::grouped::groups_do_what_users_expect;
use durable_queue_tests::programs::{self, ProgramClock, Watched};
use durable_queue_tests::rules::Fence;
#[cfg(target_os = "linux")]
use durable_queue_tests::threads::two_hundred_queues_have_few_threads;
use durable_queue_tests::{
    alike, anywhere, disturbed, proxy, redis_cluster, redis_sentinel, redis_server, support, tls,
};

/// A separate prefix per test, whose keys are removed at its end.
struct Keys {
    store: RedisStore,
    admin: Mutex<Connection>,
    prefix: String,
    address: String,
    has_manual_clock: bool,
}

impl Keys {
    fn make(has_manual_clock: bool) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let address = address(REDIS)?;
        // Relaxed: only a unique number is needed.
        let number = NEXT.fetch_add(1, Relaxed);
        let prefix = format!("test:{}:{number}", std::process::id());
        let admin = connect(&address);
        let store = options(&prefix, has_manual_clock).open(&address).unwrap();
        let keys = Self {
            store,
            admin: Mutex::new(admin),
            prefix,
            address,
            has_manual_clock,
        };
        keys.set_clock();
        Some(keys)
    }

    /// Uses the server's clock.
    fn new() -> Option<Self> {
        Self::make(false)
    }

    /// Uses a clock that the test moves.
    fn with_manual_clock() -> Option<Self> {
        Self::make(true)
    }

    fn set_clock(&self) {
        if self.has_manual_clock {
            let start = ManualStoreClock::START.as_micros();
            self.run::<()>(cmd("SET").arg(self.key("clock")).arg(start));
        }
    }

    /// Returns a key with the prefix.
    fn key(&self, rest: &str) -> String {
        format!("{}:{rest}", self.prefix)
    }

    /// Runs a command in the test's own session.
    fn run<T: FromRedisValue>(&self, command: &Cmd) -> T {
        command.query(&mut *self.admin.lock().unwrap()).unwrap()
    }

    fn all_keys(&self) -> Vec<Vec<u8>> {
        self.run(cmd("KEYS").arg(self.key("*")))
    }

    fn delete_all(&self) {
        for key in self.all_keys() {
            self.run::<()>(cmd("UNLINK").arg(key));
        }
    }

    fn session(&self) -> Connection {
        connect(&self.address)
    }

    fn options(&self) -> RedisOptions {
        options(&self.prefix, self.has_manual_clock)
    }

    /// Returns a function that opens further stores, on any thread.
    fn opener(&self) -> impl Fn() -> RedisStore + Clone + Send + 'static {
        let (options, address) = (self.options(), self.address.clone());
        move || options.clone().open(&address).unwrap()
    }

    fn another_store(&self) -> RedisStore {
        self.options().open(&self.address).unwrap()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            *self.admin.lock().unwrap() = connect(&self.address);
            self.delete_all();
        }
    }
}

fn connect(address: &str) -> Connection {
    Client::open(address).unwrap().get_connection().unwrap()
}

fn options(prefix: &str, has_manual_clock: bool) -> RedisOptions {
    let options = RedisStore::options().prefix(prefix).sessions(2);
    if has_manual_clock {
        options.manual_clock()
    } else {
        options
    }
}

impl Fixture for Keys {
    type Store = RedisStore;

    fn store(&self) -> &RedisStore {
        &self.store
    }

    fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap();
        self.run::<i64>(cmd("INCRBY").arg(self.key("clock")).arg(by));
    }

    fn another(&self) -> RedisStore {
        self.another_store()
    }
}

mod conformance {
    use super::Keys;

    durable_queue_testing::conformance_tests!(if Keys::with_manual_clock());
    durable_queue_testing::conformance_tests!(limits if Keys::with_manual_clock());
}

#[test]
fn setting_the_servers_clock_moves_jobs_and_leases() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    alike::setting_the_clock_moves_jobs_and_leases(&keys.store, |by| {
        keys.run::<i64>(cmd("INCRBY").arg(keys.key("clock")).arg(by));
    });
}

const PROGRAMS: usize = 40;

#[test]
fn random_programs_get_the_same_results_from_redis_and_the_simulation() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let other = keys.another_store();
    programs::each(PROGRAMS, |rng| {
        keys.delete_all();
        keys.set_clock();
        let clock = ProgramClock::default();
        let sim = SimStore::new(clock.clone());
        let fence = Fence::new(&other, &keys.store);
        let watched = Watched {
            stores: &[&other],
            fence: &|| fence.wait(),
        };
        programs::run(rng, &[&keys.store, &sim], &watched, |by| {
            clock.shift(by);
            keys.run::<i64>(cmd("INCRBY").arg(keys.key("clock")).arg(by));
        });
    });
}

#[test]
fn a_redis_store_works_on_any_thread() {
    if let Some(keys) = Keys::new() {
        works_on_any_thread(keys.opener());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn two_hundred_queues_cost_at_most_eight_threads() {
    let ended = testkit::in_child("two_hundred_queues_cost_at_most_eight_threads", || {
        let before = testkit::thread_names().len();
        if let Some(keys) = Keys::new() {
            two_hundred_queues_have_few_threads(before, &keys.store);
        }
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn groups_do_what_users_expect_of_redis() {
    if let Some(keys) = Keys::new() {
        groups_do_what_users_expect(keys.opener());
    }
}

#[test]
fn handlers_learn_of_cancels_on_redis_and_jobs_keep_their_failures() {
    if let Some(keys) = Keys::new() {
        handlers_learn_of_cancels_and_jobs_keep_their_failures(keys.opener());
    }
}

/// On a server of its own.
trait OpenStore {
    fn store(&self) -> RedisStore;
}

impl OpenStore for redis_server::Server {
    fn store(&self) -> RedisStore {
        RedisStore::open(&self.address()).unwrap()
    }
}
