//! Measures pushes in transactions of sqlx: `cargo run --release -p durable-queue-tests --example transactions`.
//!
//! Each round runs a transaction of each kind, in an order that rotates, so that all kinds meet the same machine. Prints the
//! median time of each kind, and the median of its ratio to the first kind in the same round. On `PostgreSQL`
//! (`DURABLE_POSTGRES_URL`) it also counts the commits of 16 concurrent transactions.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::drop_non_drop,
    reason = "a program that measures"
)]

use std::time::{Duration, Instant};

use durable_queue::{DurableQueue, Push};
use durable_queue_postgres::PostgresStore;
use durable_queue_sqlite::SqliteStore;
use durable_queue_tests::databases;
use durable_queue_tests::support::Folder;
use sqlx::{Connection as _, PgConnection, SqliteConnection};

const ROUNDS: usize = 2_000;
/// Later than the time for which pushes are announced.
const LATER: Duration = Duration::from_secs(3_600);
const SOON: Duration = Duration::from_secs(30);

fn payload() -> String {
    "p".repeat(100)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// `times`: those of each kind, by round.
fn report(title: &str, kinds: &[&str], times: &[Vec<f64>]) {
    println!("{title}");
    for (kind, own) in kinds.iter().zip(times) {
        let ratios = own.iter().zip(&times[0]).map(|(own, first)| own / first);
        let ratio = median(ratios.collect());
        println!("  {kind:<40} {:>8.1} us  {ratio:.3}", median(own.clone()));
    }
}

/// The kinds, beginning with another one in each round: a transaction may profit or suffer from the one before it,
/// so no kind may always have the same place.
fn rotated(round: usize, kinds: usize) -> impl Iterator<Item = usize> {
    (0..kinds).map(move |place| (round + place) % kinds)
}

const TABLE: &str = "CREATE TABLE plain (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)";

async fn sqlite(folder: &Folder, synced: &str) {
    let path = folder.file(synced);
    let queue: DurableQueue<String, _> =
        DurableQueue::new("mails", SqliteStore::open(&path).unwrap());
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut own = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql(&format!("PRAGMA synchronous = {synced}; {TABLE}"))
        .execute(&mut own)
        .await
        .unwrap();
    sqlx::raw_sql("CREATE TABLE users (id INTEGER PRIMARY KEY)")
        .execute(&mut own)
        .await
        .unwrap();
    let kinds = ["INSERT of the same payload", "push_in", "push_keyed_in"];
    let mut times = vec![Vec::new(); kinds.len()];
    for round in 0..ROUNDS {
        for kind in rotated(round, times.len()) {
            let begin = Instant::now();
            let mut tx = own.begin_with("BEGIN IMMEDIATE").await.unwrap();
            sqlx::query("INSERT INTO users DEFAULT VALUES")
                .execute(&mut *tx)
                .await
                .unwrap();
            match kind {
                0 => {
                    let insert = sqlx::query("INSERT INTO plain (payload) VALUES (?1)");
                    drop(
                        insert
                            .bind(payload().into_bytes())
                            .execute(&mut *tx)
                            .await
                            .unwrap(),
                    );
                }
                1 => drop(queue.push_in(&mut tx, payload(), LATER).await.unwrap()),
                _ => {
                    let key = round.to_string();
                    let put = queue.push_keyed_in(
                        &mut tx,
                        key,
                        payload(),
                        LATER,
                        durable_queue::Merge::Keep,
                    );
                    let _ = put.await.unwrap();
                }
            }
            tx.commit().await.unwrap();
            times[kind].push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    report(
        &format!("SQLite, synchronous = {synced}, one transaction"),
        &kinds,
        &times,
    );
}

const KINDS: [&str; 6] = [
    "INSERT of the same payload",
    "push_in, due later",
    "push_in, due soon",
    "push_keyed_in, due later",
    "push_statement, due later",
    "push_statement, due soon (notifies)",
];

async fn transact(
    own: &mut PgConnection,
    queue: &DurableQueue<String, PostgresStore>,
    kind: usize,
    key: String,
) {
    let mut tx = own.begin().await.unwrap();
    sqlx::query("INSERT INTO users DEFAULT VALUES")
        .execute(&mut *tx)
        .await
        .unwrap();
    match kind {
        0 => {
            let insert = sqlx::query("INSERT INTO plain (payload) VALUES ($1)");
            drop(
                insert
                    .bind(payload().into_bytes())
                    .execute(&mut *tx)
                    .await
                    .unwrap(),
            );
        }
        1 => drop(queue.push_in(&mut tx, payload(), LATER).await.unwrap()),
        2 => drop(queue.push_in(&mut tx, payload(), SOON).await.unwrap()),
        3 => {
            let put =
                queue.push_keyed_in(&mut tx, key, payload(), LATER, durable_queue::Merge::Keep);
            let _ = put.await.unwrap();
        }
        kind => {
            let push = Push::new(payload(), if kind == 4 { LATER } else { SOON });
            let push = queue.push_statement(&push).unwrap();
            let query = push
                .parameters
                .into_iter()
                .fold(sqlx::query(&push.sql), |query, it| match it {
                    durable_queue::Parameter::Text(value) => query.bind(value),
                    durable_queue::Parameter::Bool(value) => query.bind(value),
                    durable_queue::Parameter::BytesArray(value) => query.bind(value),
                    durable_queue::Parameter::IntegerArray(value) => query.bind(value),
                    durable_queue::Parameter::BoolArray(value) => query.bind(value),
                    _ => query,
                });
            drop(query.execute(&mut *tx).await.unwrap());
        }
    }
    tx.commit().await.unwrap();
}

async fn postgres(address: &str) {
    let queue: DurableQueue<String, _> =
        DurableQueue::new("mails", PostgresStore::open(address).unwrap());
    let mut own = PgConnection::connect(address).await.unwrap();
    let tables = "CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL);
        CREATE TABLE users (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)";
    sqlx::raw_sql(tables).execute(&mut own).await.unwrap();
    let mut times = vec![Vec::new(); KINDS.len()];
    for round in 0..ROUNDS {
        for kind in rotated(round, times.len()) {
            let begin = Instant::now();
            transact(&mut own, &queue, kind, format!("one {round}")).await;
            times[kind].push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    report("PostgreSQL, one transaction", &KINDS, &times);
    // Microseconds per commit, of 16 clients, in turns of half a second.
    let mut times = vec![Vec::new(); KINDS.len()];
    for turn in 0..7 {
        for kind in rotated(turn, times.len()) {
            let mut clients = Vec::new();
            let until = Instant::now() + Duration::from_millis(500);
            for client in 0..16 {
                let (queue, address) = (queue.clone(), address.to_owned());
                clients.push(tokio::spawn(async move {
                    let mut own = PgConnection::connect(&address).await.unwrap();
                    let mut count = 0_u32;
                    while Instant::now() < until {
                        let key = format!("{client} {turn} {count}");
                        transact(&mut own, &queue, kind, key).await;
                        count += 1;
                    }
                    count
                }));
            }
            let mut count = 0;
            for client in clients {
                count += client.await.unwrap();
            }
            times[kind].push(500_000.0 / f64::from(count));
        }
    }
    report("PostgreSQL, 16 clients, time per commit", &KINDS, &times);
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let folder = Folder::new();
        sqlite(&folder, "FULL").await;
        sqlite(&folder, "NORMAL").await;
    });
    if let Some(database) = databases::Postgres::new("transactions") {
        runtime.block_on(postgres(&database.address));
    }
}
