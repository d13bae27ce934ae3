//! Failures are reported correctly, without secrets.

use std::net::{SocketAddr, TcpListener};
use std::str::FromStr;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ::postgres::Config;
use ::postgres::config::Host;
use durable_queue::store::{Act, Claim, ListedJob, Settle};
use durable_queue::{
    CarriedOut, DurableQueue, ErrorKind, NewJob, Notifier, PushIn, Store, StoreTime, Token,
};
use durable_queue_postgres::PostgresStore;

use super::Database;
use crate::alike::{
    HOLD, JOB, a_forked_child_is_refused, a_lost_response_is_reported,
    a_silent_listening_session_is_probed, count, lost_responses_lose_no_job,
    sessions_cut_together_are_replaced, shown, what,
};
use crate::disturbed::a_disturbed_party_loses_nothing;
use crate::proxy::{Proxy, SilentAfter};

/// Returns the address with another host and port.
pub(super) fn through(database: &Database, address: SocketAddr) -> Config {
    let known = Config::from_str(&database.address).unwrap();
    let mut config = Config::new();
    config
        .host(&address.ip().to_string())
        .port(address.port())
        .user(known.get_user().unwrap())
        .password(known.get_password().unwrap())
        .dbname(known.get_dbname().unwrap());
    config
}

pub(super) fn server(database: &Database) -> SocketAddr {
    let config = Config::from_str(&database.address).unwrap();
    let Host::Tcp(host) = &config.get_hosts()[0] else {
        panic!("the tests' server listens to TCP");
    };
    SocketAddr::new(host.parse().unwrap(), config.get_ports()[0])
}

#[test]
fn the_error_of_a_wrong_password_shows_neither_it_nor_the_user() {
    let Some(database) = Database::new() else {
        return;
    };
    let mut config = Config::from_str(&database.address).unwrap();
    let user = config.get_user().unwrap().to_owned();
    config.password("hunter2");
    let error = database.options().open_config(config).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Other, CarriedOut::No));
    let shown = shown(&error);
    assert!(shown.contains("28P01"), "{shown}");
    assert!(
        !shown.contains("hunter2") && !shown.contains(&user),
        "{shown}"
    );
}

#[test]
fn no_debug_output_contains_an_address() {
    let address = "postgres://secret-user:secret-word@secret-host.invalid:1/secret-base";
    for address in [
        address.to_owned(),
        format!("{address}?sslmode=require"),
        format!("{address}?secret-setting=1"),
        "host=secret secret-setting".to_owned(),
    ] {
        let error = PostgresStore::open(&address).unwrap_err();
        assert_eq!(error.carried_out(), CarriedOut::No);
        let shown = shown(&error);
        assert!(!shown.contains("secret"), "{shown}");
    }
    let Some(database) = Database::new() else {
        return;
    };
    let mut config = Config::from_str(&database.address).unwrap();
    let password = String::from_utf8(config.get_password().unwrap().to_vec()).unwrap();
    config.application_name("secret-application");
    let store = database.options().open_config(config).unwrap();
    let shown = format!(
        "{store:?} {:?} {:?}",
        database.options(),
        DurableQueue::<Vec<u8>, _>::new("q", store.clone())
    );
    assert!(
        !shown.contains(&password) && !shown.contains("secret"),
        "{shown}"
    );
}

#[test]
fn server_errors_show_no_payload_and_no_key() {
    let Some(database) = Database::new() else {
        return;
    };
    database.sql("ALTER TABLE SCHEMA.job ADD CHECK (payload <> 'hunter2')");
    let secret = NewJob {
        payload: b"hunter2",
        key: Some(b"hunter2"),
        ..JOB
    };
    let error = database.store.enqueue("queue", &[secret]).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Other, CarriedOut::No));
    let shown = shown(&error);
    assert!(shown.contains("23514"), "{shown}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("68756e74657232"),
        "{shown}"
    );
}

#[test]
fn a_missing_server_is_an_error_of_a_call_that_was_not_carried_out() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut config = Config::new();
    config.host("127.0.0.1").port(closed.port()).user("user");
    let error = PostgresStore::options().open_config(config).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::No));
    assert!(error.is_transient());
}

#[test]
fn a_read_only_database_is_reported_as_read_only() {
    let Some(database) = Database::new() else {
        return;
    };
    let mut config = Config::from_str(&database.address).unwrap();
    config.options("-c default_transaction_read_only=on");
    let store = database.options().open_config(config).unwrap();
    let error = store.enqueue("queue", &[JOB]).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::ReadOnly, CarriedOut::No));
    assert!(!error.is_transient());
    assert_eq!(count(&store), 0, "it can be read");
}

#[test]
fn a_key_pushed_by_an_open_transaction_is_busy_until_it_commits() {
    let Some(database) = Database::new() else {
        return;
    };
    let patience = Duration::from_millis(1);
    let store = database
        .options()
        .busy_timeout(patience)
        .open(&database.address)
        .unwrap();
    let keyed = NewJob {
        key: Some(b"key"),
        ..JOB
    };
    let mut own = database.session();
    let mut transaction = own.transaction().unwrap();
    store
        .enqueue_in(&mut transaction, "queue", &[keyed])
        .unwrap();
    let error = store.enqueue("queue", &[keyed]).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Busy, CarriedOut::No));
    assert!(error.is_transient());
    transaction.rollback().unwrap();
    store.enqueue("queue", &[keyed]).unwrap();
    assert_eq!(count(&store), 1);
}

/// As a server does at its shutdown.
#[test]
fn a_session_closed_by_the_server_is_replaced() {
    let Some(database) = Database::new() else {
        return;
    };
    let name = format!("{}_cut", database.schema);
    let address = format!("{}?application_name={name}", database.address);
    let store = database.options().open(&address).unwrap();
    let cut = format!(
        "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
        WHERE application_name = '{name}'"
    );
    for known in 0..5 {
        store.enqueue("queue", &[JOB]).unwrap();
        assert_eq!(count(&store), known + 1);
        assert_eq!(database.get::<i64>(&cut), 1);
        // Whether it was carried out is unknown, unless the session was idle and was checked first.
        if let Err(error) = store.stats("queue") {
            assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::Perhaps));
        }
    }
    assert_eq!(count(&store), 5);
}

#[test]
fn a_call_whose_response_was_lost_may_have_been_carried_out() {
    let Some(database) = Database::new() else {
        return;
    };
    let proxy = Proxy::new(server(&database));
    let store = database
        .options()
        .open_config(through(&database, proxy.address))
        .unwrap();
    a_lost_response_is_reported(&database.store, &store, &proxy);
}

#[test]
fn a_queue_whose_connections_are_cut_repeatedly_loses_no_job() {
    let Some(database) = Database::new() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || {
        let proxy = Proxy::new(server(&database));
        let store = database
            .options()
            .open_config(through(&database, proxy.address))
            .unwrap();
        // Starting a session takes about ten responses.
        lost_responses_lose_no_job(&database.store, store, &proxy, 17);
    });
}

#[test]
fn processes_behind_a_disturbing_proxy_lose_no_job() {
    let Some(database) = Database::new() else {
        return;
    };
    a_disturbed_party_loses_nothing("postgres", server(&database), &database.store, |address| {
        let config = through(&database, address);
        database.options().open_config(config).ok()
    });
}

#[test]
fn sessions_cut_together_fail_only_one_call() {
    let Some(database) = Database::new() else {
        return;
    };
    let proxy = Proxy::with(server(&database), SilentAfter::new(HOLD));
    let config = through(&database, proxy.address);
    let store = database.options().open_config(config).unwrap();
    sessions_cut_together_are_replaced(&proxy, &store);
}

#[test]
fn a_silent_listening_session_is_probed_and_replaced_if_it_does_not_answer() {
    let Some(database) = Database::new() else {
        return;
    };
    let proxy = Proxy::new(server(&database));
    a_silent_listening_session_is_probed(&proxy, |every, answer| {
        let options = database.options().probe(every, answer);
        options
            .open_config(through(&database, proxy.address))
            .unwrap()
    });
}

/// If it were carried out after the search for its claims, no process would know of its jobs.
#[test]
fn a_claim_in_progress_when_its_connection_is_cut_is_found_or_never_carried_out() {
    let Some(database) = Database::new() else {
        return;
    };
    let name = format!("{}_claims", database.schema);
    let direct = &database.store;
    let proxy = Proxy::new(server(&database));
    let mut config = through(&database, proxy.address);
    config.application_name(&name);
    let store = database.options().open_config(config).unwrap();
    let claim = || Claim {
        token: Token::random(),
        kinds: None,
        max: 1,
        start: 1,
        ahead: 0,
        horizon: Duration::ZERO,
        lease: Duration::from_secs(3_600),
        urgent_first: true,
    };
    let busy = |state: &str| {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name";
        database.get::<i64>(&format!("{count} = '{name}' AND {state}"))
    };
    direct.enqueue("queue", &[JOB, JOB]).unwrap();
    let (first, second) = (claim(), claim());
    let turn = direct.turn("queue", &[], Some(first)).unwrap();
    let held = turn.claimed.unwrap().leases.remove(0);
    let ack = Settle {
        id: held.id,
        token: held.token,
        act: Act::Ack,
    };
    testkit::watchdog(testkit::LIMIT, || {
        // The turn settles this job and waits for it before it claims the other one.
        let mut session = database.session();
        let mut transaction = session.transaction().unwrap();
        let lock = format!(
            "SELECT FROM {}.job WHERE id = $1 FOR UPDATE",
            database.schema
        );
        let id = i64::try_from(held.id.as_u64()).unwrap();
        transaction.execute(&lock, &[&id]).unwrap();
        thread::scope(|scope| {
            let turn = scope.spawn(|| store.turn("queue", &[ack], Some(second)));
            while busy("wait_event_type = 'Lock'") == 0 {
                thread::yield_now();
            }
            proxy.cut();
            let error = turn.join().unwrap().unwrap_err();
            assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::Perhaps));
        });
        let found = store.held_by("queue", second.token, second.lease).unwrap();
        assert!(found.is_empty());
        transaction.rollback().unwrap();
        while busy("state = 'active'") > 0 {
            thread::yield_now();
        }
        let states = direct.list("queue", None, 2).unwrap();
        let is_free = |job: &ListedJob| !job.state.is_held();
        assert!(states.iter().any(is_free), "{states:?}");
    });
}

#[test]
fn a_session_whose_check_gets_no_response_is_replaced() {
    let Some(database) = Database::new() else {
        return;
    };
    let proxy = Proxy::with(server(&database), SilentAfter::new(b"pg_notify"));
    let soon = Duration::from_millis(50);
    let options = database.options().probe(soon, soon);
    let config = through(&database, proxy.address);
    let store = options.open_config(config).unwrap();
    let (sender, times) = channel();
    let notifier = Notifier::new(move |due| _ = sender.send(due));
    testkit::watchdog(testkit::LIMIT, || {
        let _watch = store.watch("queue", notifier).unwrap();
        assert_eq!(times.recv(), Ok(StoreTime::from_micros(i64::MIN)));
    });
}

#[test]
fn a_server_that_accepts_and_stays_silent_is_an_error_of_a_call_that_was_not_carried_out() {
    let Some(database) = Database::new() else {
        return;
    };
    let proxy = Proxy::with(server(&database), SilentAfter::new(b"user"));
    let mut config = through(&database, proxy.address);
    let soon = Duration::from_millis(50);
    config.connect_timeout(soon).tcp_user_timeout(soon);
    testkit::watchdog(testkit::LIMIT, || {
        let error = database.options().open_config(config).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::No));
    });
}

/// The commit comes first, so the error must not look as if the push had failed.
#[test]
fn a_push_whose_announcement_fails_has_succeeded() {
    let Some(database) = Database::new() else {
        return;
    };
    for (number, error) in ["query_canceled", "lock_not_available"].iter().enumerate() {
        database.sql(&format!(
            "CREATE OR REPLACE FUNCTION SCHEMA.announce(p_queue text, p_due bigint, p_origin text)
            RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE {error}; END $$"
        ));
        database.store.enqueue("queue", &[JOB]).unwrap();
        assert_eq!(count(&database.store) as usize, number + 1, "{error}");
    }
}

/// Responses would reach the wrong process, and a drop of the client would close the parent's session.
#[test]
fn a_forked_child_is_rejected_and_the_parents_sessions_keep_working() {
    let ended = testkit::in_child(
        "failing::a_forked_child_is_rejected_and_the_parents_sessions_keep_working",
        || {
            let Some(database) = Database::new() else {
                return;
            };
            database.store.enqueue("queue", &[JOB]).unwrap();
            let name = format!("{}_forks", database.schema);
            let mut config = Config::from_str(&database.address).unwrap();
            config.application_name(&name);
            // The listening session is not probed during the test.
            let options = database
                .options()
                .probe(testkit::LIMIT * 2, testkit::LIMIT * 2);
            let store = options.open_config(config.clone()).unwrap();
            assert_eq!(count(&store), 1);
            // The listener has its own session.
            drop(store.watch("queue", Notifier::new(|_| ())).unwrap());
            // The sessions, and the time of each one's last query.
            let asked = || {
                database.get::<String>(&format!(
                    "SELECT string_agg(pid || ' ' || query_start, ', ' ORDER BY pid)
                    FROM pg_stat_activity WHERE application_name = '{name}'"
                ))
            };
            let mut own = config.connect(::postgres::NoTls).unwrap();
            let mut transaction = own.transaction().unwrap();
            let before = asked();
            let store = a_forked_child_is_refused(store, |store| {
                let refused = store.enqueue_in(&mut transaction, "queue", &[JOB]).err();
                assert!(refused.is_some(), "it went out on the parent's session");
                refused
            });
            assert_eq!(asked(), before);
            transaction.rollback().unwrap();
            assert_eq!(count(&store), 1);
            store.enqueue("queue", &[JOB]).unwrap();
            let pids = |sessions: &str| -> Vec<String> {
                let pids = sessions
                    .split(", ")
                    .filter_map(|session| session.split(' ').next());
                pids.map(str::to_owned).collect()
            };
            assert_eq!(pids(&asked()), pids(&before), "on the same sessions");
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}
