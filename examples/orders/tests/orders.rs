//! The example `orders`, killed repeatedly under load: no order is lost, none expires early, and
//! none is both paid and expired. Runs on each store. Stores whose server is not configured are
//! left out with a message.
#![cfg(all(unix, not(anthill_loom)))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

#[path = "../src/client.rs"]
mod client;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::thread;

/// How often the server is killed.
const KILLS: usize = 6;
/// The minimum number of orders between two kills.
const ORDERS: usize = 40;
const CLIENTS: usize = 3;
/// Long enough that some orders are paid, short enough that some expire before each kill.
const TIME_TO_PAY: &str = "150";

struct Server {
    child: Child,
    address: String,
    mails: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(store: Option<&str>, folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_orders"))
            .args(store.map(|store| ["--store", store]).into_iter().flatten())
            .arg(folder)
            .args(["127.0.0.1:0", TIME_TO_PAY])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut mails = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = mails.next().expect("it says where it listens").unwrap();
        Self {
            child,
            address,
            mails,
        }
    }

    /// Kills the server with SIGKILL.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The server's answers: the order, and whether it was paid. If the answer to a payment was lost,
/// the order may be in either state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Open,
    Paid,
    Refused,
    Unknown,
}

/// Creates orders and pays every third, until the server is killed or all are created.
fn buy(address: &str, orders: &Mutex<BTreeMap<String, Known>>) {
    for index in 0..=ORDERS / CLIENTS {
        let Ok(order) = client::post(address, "/orders") else {
            return;
        };
        assert_eq!(order.status, 201, "{}", order.text);
        orders
            .lock()
            .unwrap()
            .insert(order.text.clone(), Known::Open);
        if index % 3 != 0 {
            continue;
        }
        let known = match client::post(address, &format!("/orders/{}/pay", order.text)) {
            Ok(answer) if answer.is_ok() => Known::Paid,
            Ok(answer) => {
                assert_eq!(answer.status, 409, "{}", answer.text);
                Known::Refused
            }
            Err(_) => Known::Unknown,
        };
        orders.lock().unwrap().insert(order.text, known);
    }
}

/// Returns the e-mail about an order, if it was written.
fn mail(folder: &Path, order: &str) -> Option<String> {
    fs::read_to_string(folder.join(format!("{order}.mail"))).ok()
}

#[test]
fn a_shop_killed_repeatedly_loses_no_order_and_expires_none_early() {
    killed_in_mid_run("sqlite", None);
}

#[test]
fn a_shop_on_postgres_killed_repeatedly_loses_no_order_and_expires_none_early() {
    if let Some(database) = durable_queue_tests::databases::Postgres::new("orders") {
        killed_in_mid_run("postgres", Some(&database.address));
    }
}

#[test]
fn a_shop_on_redis_killed_repeatedly_loses_no_order_and_expires_none_early() {
    if let Some(database) = durable_queue_tests::databases::Redis::new(14) {
        killed_in_mid_run("redis", Some(&database.address));
    }
}

fn killed_in_mid_run(name: &str, store: Option<&str>) {
    testkit::watchdog(testkit::LIMIT * 5, || {
        let folder = testkit::scratch(env!("CARGO_TARGET_TMPDIR"), &format!("orders-{name}"));

        let orders = Mutex::new(BTreeMap::new());
        for life in 0..KILLS {
            let mut server = Server::start(store, &folder);
            let address = server.address.clone();
            thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(|| buy(&address, &orders));
                }
                // Kills the server during requests and expiries: after a number of e-mails that
                // differs each time.
                for _ in 0..=life * 5 {
                    server.mails.next().expect("it goes on").unwrap();
                }
                server.kill();
            });
        }

        let mut server = Server::start(store, &folder);
        let orders = orders.into_inner().unwrap();
        while orders.keys().any(|order| mail(&folder, order).is_none()) {
            // Waits for one of the missing e-mails.
            server.mails.next().expect("it goes on").unwrap();
        }
        server.kill();

        let mut counts = [0, 0];
        let mut late = Vec::new();
        for (order, known) in &orders {
            let mail = mail(&folder, order).unwrap();
            let mut words = mail.split(' ');
            assert_eq!(words.next(), Some(&**order));
            let state = words.next().unwrap();
            assert!(["paid", "expired"].contains(&state), "{mail}");
            let is_paid = state == "paid";
            match known {
                Known::Paid => assert!(is_paid, "{mail}"),
                Known::Open | Known::Refused => assert!(!is_paid, "{mail}"),
                Known::Unknown => {}
            }
            counts[usize::from(is_paid)] += 1;
            // The e-mail of an expired order contains the lateness, which is negative if it was
            // early.
            let micros = words.next().map(|micros| micros.parse::<u64>().unwrap());
            assert_eq!(micros.is_some(), !is_paid, "{mail}");
            late.extend(micros);
        }
        let [expired, paid] = counts;
        assert!(expired > 0, "most are not paid");
        late.sort_unstable();
        let [median, longest] = [late.len() / 2, late.len() - 1].map(|index| late[index]);
        let said = format!(
            "\n{name}: {KILLS} kills, {} orders: {paid} paid, {expired} expired, half of them late by {median} us at \
            most, the latest by {longest} us, kills and starts of the shop included\n",
            orders.len(),
        );
        // Writes past the harness, which prints the output of a test only if it fails.
        io::stderr().write_all(said.as_bytes()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    });
}
