//! The example `shop_async`, killed repeatedly under load: each user gets a welcome mail, each order is paid or expires,
//! none early, and reports go on.
#![cfg(all(unix, not(anthill_loom)))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

#[path = "../../orders/src/client.rs"]
mod client;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::thread;

use sqlx::SqlitePool;
use testkit::Running;

/// How often the service is killed.
const KILLS: usize = 6;
/// The minimum number of users between two kills.
const USERS: usize = 40;
const CLIENTS: usize = 3;
/// Long enough that some orders are paid, short enough that some expire before each kill.
const TIME_TO_PAY: &str = "150";
/// Each second.
const REPORTS: &str = "* * * * * *";

struct Service {
    process: Running,
    address: String,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Service {
    fn start(file: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop_async"));
        command
            .arg(file)
            .args(["127.0.0.1:0", TIME_TO_PAY, REPORTS])
            .stdout(Stdio::piped());
        let mut process = Running::start(&mut command);
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        let address = lines.next().expect("it says where it listens").unwrap();
        Self {
            process,
            address,
            lines,
        }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("it goes on").unwrap()
    }

    fn end(mut self, signal: &str) -> i32 {
        self.process.send(signal);
        self.process.end()
    }
}

/// The service's answers: the users, and the orders with whether they were paid, if the answer was not lost.
#[derive(Default)]
struct Known {
    users: Vec<String>,
    orders: BTreeMap<String, Option<bool>>,
}

/// Signs users up, each of whom orders, and pays every third order, until the service is killed.
fn buy(address: &str, name: &str, known: &Mutex<Known>) {
    for index in 0..=USERS / CLIENTS {
        let Ok(user) = client::post(address, &format!("/users/{name}-{index}")) else {
            return;
        };
        assert_eq!(user.status, 201, "{}", user.text);
        known.lock().unwrap().users.push(user.text.clone());
        let Ok(order) = client::post(address, &format!("/users/{}/orders", user.text)) else {
            return;
        };
        assert_eq!(order.status, 201, "{}", order.text);
        let mut paid = Some(false);
        if index % 3 == 0 {
            // Unknown, until the answer is there.
            known
                .lock()
                .unwrap()
                .orders
                .insert(order.text.clone(), None);
            let answer = client::post(address, &format!("/orders/{}/pay", order.text));
            paid = answer.ok().map(|answer| {
                assert!([200, 409].contains(&answer.status), "{}", answer.text);
                answer.is_ok()
            });
        }
        known.lock().unwrap().orders.insert(order.text, paid);
    }
}

/// Runs a query on the service's database.
fn query<T>(file: &Path, sql: &str) -> Vec<T>
where
    T: Send + Unpin + for<'r> sqlx::FromRow<'r, sqlx::sqlite::SqliteRow>,
{
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let address = format!("sqlite://{}", file.display());
        let database = SqlitePool::connect(&address).await.unwrap();
        let rows = sqlx::query_as(sql).fetch_all(&database).await.unwrap();
        database.close().await;
        rows
    })
}

/// Changes whose mail was not sent.
const MISSING: &str = "SELECT count(*) FROM (
        SELECT 'welcome/' || id AS mail FROM users
        UNION ALL SELECT 'order/' || id FROM orders)
    WHERE mail NOT IN (SELECT id FROM outbox)";

#[test]
fn a_service_killed_repeatedly_misses_no_job_and_expires_no_order_early() {
    testkit::watchdog(testkit::LIMIT * 5, || {
        let folder = testkit::scratch(env!("CARGO_TARGET_TMPDIR"), "shop_async");
        let file = folder.join("shop");
        let known = Mutex::new(Known::default());
        for life in 0..KILLS {
            let mut service = Service::start(&file);
            let address = service.address.clone();
            thread::scope(|scope| {
                for client in 0..CLIENTS {
                    let (address, known) = (&address, &known);
                    scope.spawn(move || buy(address, &format!("{life}-{client}"), known));
                }
                // During requests and handlers: after a number of mails that differs each time.
                for _ in 0..=life * 10 {
                    service.line();
                }
                service.end("KILL");
            });
        }

        let mut service = Service::start(&file);
        // Reports wake this up each second at the latest.
        while query::<(i64,)>(&file, MISSING) != [(0,)] {
            service.line();
        }
        while !service.line().starts_with("report ") {}
        assert_eq!(service.end("TERM"), 0, "it ends after a signal");

        let Known { users, orders } = known.into_inner().unwrap();
        let made: Vec<(i64,)> = query(&file, "SELECT id FROM users");
        for user in &users {
            assert!(made.contains(&(user.parse().unwrap(),)), "user {user}");
        }
        let made: Vec<(i64, String, Option<i64>)> =
            query(&file, "SELECT id, state, late FROM orders");
        let states: BTreeMap<String, &str> = made
            .iter()
            .map(|(id, state, _)| (id.to_string(), &**state))
            .collect();
        for (order, is_paid) in &orders {
            let state = states[order];
            assert!(
                ["paid", "expired"].contains(&state),
                "order {order} is {state}"
            );
            assert!(is_paid.is_none_or(|is_paid| is_paid == (state == "paid")));
        }
        let late: Vec<i64> = made.iter().filter_map(|(_, _, late)| *late).collect();
        assert!(!late.is_empty(), "most are not paid");
        assert!(late.iter().all(|&late| late >= 0), "{late:?}");
        // Nothing is left but the next report.
        let left: Vec<(Option<String>,)> = query(&file, "SELECT kind FROM durable_job");
        assert_eq!(left, [(Some("report".to_owned()),)]);
        assert!(query::<(i64,)>(&file, "SELECT id FROM durable_dead").is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    });
}

#[test]
fn the_demonstration_ends() {
    let output = Command::new(env!("CARGO_BIN_EXE_shop_async"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap();
    assert_eq!(
        last,
        "30 users with an order each: 30 orders, 10 paid, 20 expired"
    );
}

/// The page cannot compile its code, which needs this package.
#[test]
fn the_guide_shows_the_code_of_this_service() {
    let trimmed = |text: &str| -> String {
        text.lines()
            .map(|line| line.trim().to_owned() + "\n")
            .collect()
    };
    let sources = [
        include_str!("../src/main.rs"),
        include_str!("../src/shop.rs"),
        include_str!("../src/jobs.rs"),
    ];
    let sources = trimmed(&sources.concat());
    let page = include_str!("../../../crates/anthill/src/guide/durable_jobs.rs");
    let page = page.replace("//!", "");
    let blocks: Vec<String> = page
        .split("```")
        .filter_map(|part| part.strip_prefix("ignore\n"))
        .map(trimmed)
        .collect();
    assert!(blocks.len() > 5);
    for block in blocks {
        assert!(
            sources.contains(block.trim()),
            "not in the service:\n{block}"
        );
    }
}
