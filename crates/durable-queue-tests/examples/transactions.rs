//! Measures pushes in transactions of sqlx: `cargo run --release -p durable-queue-tests --example transactions`.
//!
//! Each round runs transactions of each kind, in an order that rotates, so that all kinds meet the same machine. Prints
//! the medians of the time and of the processor time per transaction, and of their ratios to the first kind in the same
//! round. Processor time is that of this process and of the sessions of `PostgreSQL` (`DURABLE_POSTGRES_URL`), which must
//! run on the same Linux. Other programs disturb it less than the time.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::drop_non_drop,
    clippy::cast_precision_loss,
    reason = "a program that measures"
)]

use std::fs::{read_dir, read_to_string};
use std::path::Path;
use std::time::{Duration, Instant};

use durable_queue::{DurableQueue, Merge, Parameter, Push};
use durable_queue_postgres::PostgresStore;
use durable_queue_sqlite::SqliteStore;
use durable_queue_tests::databases;
use durable_queue_tests::support::Folder;
use sqlx::{Connection as _, PgConnection, SqliteConnection};

const CLIENTS: usize = 16;
/// Transactions per client, kind and round.
const BLOCK: usize = 20;
const ROUNDS: usize = 200;
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

/// Processor time in microseconds of this process and of others.
fn processor_time(others: &[i32]) -> f64 {
    let of = |task: &Path| {
        let text = read_to_string(task.join("schedstat")).unwrap_or_default();
        let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
        nanoseconds.unwrap_or(0.0) / 1e3
    };
    let own = read_dir("/proc/self/task").into_iter().flatten();
    let own: f64 = own.map(|task| of(&task.unwrap().path())).sum();
    let others = others
        .iter()
        .map(|id| of(Path::new(&format!("/proc/{id}"))));
    own + others.sum::<f64>()
}

/// `run` runs `count` transactions of a kind.
async fn measure(
    title: &str,
    kinds: &[&str],
    count: usize,
    servers: &[i32],
    mut run: impl AsyncFnMut(usize, usize),
) {
    let mut spent = vec![[Vec::new(), Vec::new()]; kinds.len()];
    for round in 0..=ROUNDS {
        // Beginning with another kind in each round: a kind may profit or suffer from the one before it.
        for place in 0..kinds.len() {
            let kind = (round + place) % kinds.len();
            let (begin, before) = (Instant::now(), processor_time(servers));
            run(kind, round).await;
            let time = begin.elapsed().as_secs_f64() * 1e6;
            let both = [time, processor_time(servers) - before];
            // The first round prepares statements and fills caches.
            if round > 0 {
                for (all, one) in spent[kind].iter_mut().zip(both) {
                    all.push(one / count as f64);
                }
            }
        }
    }
    println!("{title}: time, ratio; processor time, ratio");
    for (kind, own) in kinds.iter().zip(&spent) {
        print!("  {kind:<36}");
        for (own, first) in own.iter().zip(&spent[0]) {
            let ratios = own.iter().zip(first).map(|(own, first)| own / first);
            let ratio = median(ratios.collect());
            print!(" {:>8.1} us  {ratio:.3}", median(own.clone()));
        }
        println!();
    }
}

async fn sqlite(folder: &Folder, synced: &str) {
    const KINDS: [&str; 3] = ["INSERT of the same payload", "push_in", "push_keyed_in"];
    let path = folder.file(synced);
    let queue: DurableQueue<String, _> =
        DurableQueue::new("mails", SqliteStore::open(&path).unwrap());
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
    let mut own = SqliteConnection::connect_with(&options).await.unwrap();
    let tables = format!(
        "PRAGMA synchronous = {synced}; CREATE TABLE users (id INTEGER PRIMARY KEY);
        CREATE TABLE plain (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)"
    );
    sqlx::raw_sql(&tables).execute(&mut own).await.unwrap();
    let title = format!("SQLite, synchronous = {synced}");
    measure(&title, &KINDS, BLOCK, &[], async |kind, round| {
        for number in 0..BLOCK {
            let mut tx = own.begin_with("BEGIN IMMEDIATE").await.unwrap();
            let user = sqlx::query("INSERT INTO users DEFAULT VALUES");
            user.execute(&mut *tx).await.unwrap();
            match kind {
                0 => {
                    let insert = sqlx::query("INSERT INTO plain (payload) VALUES (?1)");
                    let insert = insert.bind(payload().into_bytes()).execute(&mut *tx);
                    drop(insert.await.unwrap());
                }
                1 => drop(queue.push_in(&mut tx, payload(), LATER).await.unwrap()),
                _ => {
                    let key = format!("{round} {number}");
                    let put = queue.push_keyed_in(&mut tx, key, payload(), LATER, Merge::Keep);
                    let _ = put.await.unwrap();
                }
            }
            tx.commit().await.unwrap();
        }
    })
    .await;
}

async fn transact(
    own: &mut PgConnection,
    queue: &DurableQueue<String, PostgresStore>,
    kind: usize,
    key: String,
) {
    let mut tx = own.begin().await.unwrap();
    let user = sqlx::query("INSERT INTO users DEFAULT VALUES");
    user.execute(&mut *tx).await.unwrap();
    match kind {
        0 => {
            let insert = sqlx::query("INSERT INTO plain (payload) VALUES ($1)");
            let insert = insert.bind(payload().into_bytes()).execute(&mut *tx);
            drop(insert.await.unwrap());
        }
        1 => drop(queue.push_in(&mut tx, payload(), LATER).await.unwrap()),
        2 => drop(queue.push_in(&mut tx, payload(), SOON).await.unwrap()),
        3 => {
            let put = queue.push_keyed_in(&mut tx, key, payload(), LATER, Merge::Keep);
            let _ = put.await.unwrap();
        }
        kind => {
            let push = Push::new(payload(), if kind == 4 { LATER } else { SOON });
            let push = queue.push_statement(&push).unwrap();
            let query = push
                .parameters
                .into_iter()
                .fold(sqlx::query(&push.sql), |query, it| match it {
                    Parameter::Text(value) => query.bind(value),
                    Parameter::Bool(value) => query.bind(value),
                    Parameter::BytesArray(value) => query.bind(value),
                    Parameter::IntegerArray(value) => query.bind(value),
                    Parameter::BoolArray(value) => query.bind(value),
                    _ => query,
                });
            drop(query.execute(&mut *tx).await.unwrap());
        }
    }
    tx.commit().await.unwrap();
}

async fn postgres(address: &str, clients: usize) {
    const KINDS: [&str; 6] = [
        "INSERT of the same payload",
        "push_in, due later",
        "push_in, due soon",
        "push_keyed_in, due later",
        "push_statement, due later",
        "push_statement, due soon (notifies)",
    ];
    let queue: DurableQueue<String, _> =
        DurableQueue::new("mails", PostgresStore::open(address).unwrap());
    // Before the measurement, because connections are slow until they have read the catalogs.
    let (mut connections, mut servers) = (Vec::new(), Vec::new());
    for _ in 0..clients {
        let mut own = PgConnection::connect(address).await.unwrap();
        let id = sqlx::query_scalar("SELECT pg_backend_pid()");
        servers.push(id.fetch_one(&mut own).await.unwrap());
        connections.push(own);
    }
    let tables =
        "CREATE TABLE IF NOT EXISTS plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL);
        CREATE TABLE IF NOT EXISTS users (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)";
    let created = sqlx::raw_sql(tables).execute(&mut connections[0]).await;
    created.unwrap();
    let (title, count) = (format!("PostgreSQL, clients: {clients}"), clients * BLOCK);
    measure(&title, &KINDS, count, &servers, async |kind, round| {
        let running = connections.drain(..).enumerate().map(|(client, mut own)| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for number in 0..BLOCK {
                    let key = format!("{clients} {client} {round} {number}");
                    transact(&mut own, &queue, kind, key).await;
                }
                own
            })
        });
        let running: Vec<_> = running.collect();
        for client in running {
            connections.push(client.await.unwrap());
        }
    })
    .await;
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
        for clients in [1, CLIENTS] {
            runtime.block_on(postgres(&database.address, clients));
        }
    }
}
