//! `orders [--store ADDRESS] [DIR ADDRESS MILLISECONDS]`: a shop whose orders expire unless they are
//! paid in time.
//!
//! Shows a durable delay queue. An order and its timeout are created atomically, and so are a change of
//! its state and the e-mail about it. The process may be killed at any moment: after a restart, it
//! continues with the due jobs.
//!
//! ```text
//! POST /orders ──────> order + timeout                  queue `timeouts`
//! POST /orders/7/pay ─> paid + e-mail ─────────────────> queue `e-mails` ──> a file
//!                       expired + e-mail ──────────────>
//!                           ^── handler of a timeout
//! ```
//!
//! A job is delivered at least once, so each handler may find its work done: only an open order changes
//! its state, and a file is written again with the same text.
//!
//! Orders and jobs are in a `SQLite` file in the folder, or on the server that `--store` names:
//! `postgres://..` or `redis://..`.
//!
//! Without a folder, the program creates some orders, pays a third of them, waits for the others to
//! expire, and prints how late that was. With a folder, it serves until it is killed: it prints its
//! address, and then a line per e-mail.

mod books;
mod client;
mod server;
mod shop;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use books::{Books, Sqlite};
use server::Server;
use shop::{Failure, Mail, Shop};

/// Orders of a run without a folder.
const ORDERS: usize = 30;
const TIME_TO_PAY: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (store, rest) = match &arguments[..] {
        [flag, store, rest @ ..] if flag == "--store" => (Some(&**store), rest),
        rest => (None, rest),
    };
    let ended = match rest {
        [] => run(store, None),
        [folder, address, millis] => match millis.parse() {
            Ok(millis) => {
                let folder = Path::new(folder);
                run(
                    store,
                    Some((folder, address, Duration::from_millis(millis))),
                )
            }
            Err(error) => Err(error.into()),
        },
        _ => {
            eprintln!("usage: orders [--store ADDRESS] [DIR ADDRESS MILLISECONDS]");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orders: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The folder, the address, and the time to pay.
type Served<'a> = (&'a Path, &'a str, Duration);

fn run(store: Option<&str>, served: Option<Served<'_>>) -> Result<(), Failure> {
    let scratch = served.is_none().then(Scratch::new).transpose()?;
    let own = scratch.as_ref().map(|scratch| &*scratch.0);
    let folder = served.map(|(folder, ..)| folder).or(own);
    let folder = folder.expect("it is given, or made");
    match store {
        None => run_on(Sqlite::open(&folder.join("shop"))?, folder, served),
        Some(store) if store.starts_with("postgres") => {
            run_on(books::Postgres::open(store)?, folder, served)
        }
        Some(store) if store.starts_with("redis") => {
            run_on(books::Redis::open(store)?, folder, served)
        }
        Some(_) => Err("unknown store".into()),
    }
}

fn run_on(books: impl Books, folder: &Path, served: Option<Served<'_>>) -> Result<(), Failure> {
    match served {
        Some((_, address, time_to_pay)) => serve(&Shop::new(books, folder, time_to_pay), address),
        None => demo(Shop::new(books, folder, TIME_TO_PAY)),
    }
}

/// Serves until the process is killed.
fn serve(shop: &Shop<impl Books>, address: &str) -> Result<(), Failure> {
    let server = Server::bind(address)?;
    println!("{}", server.address());
    let _workers = shop.work(|mail: &Mail| println!("{mail}"))?;
    server.serve(shop);
    Ok(())
}

/// Creates orders, and waits until each is paid or expired.
fn demo(shop: Shop<impl Books>) -> Result<(), Failure> {
    let server = Server::bind("127.0.0.1:0")?;
    let address = server.address();
    let (sent, mails) = channel();
    let _workers = shop.work(move |mail: &Mail| _ = sent.send(mail.clone()))?;
    std::thread::spawn(move || server.serve(&shop));

    let mut paid = 0;
    for index in 0..ORDERS {
        let order = client::post(&address, "/orders")?.text;
        if index % 3 == 0 && client::post(&address, &format!("/orders/{order}/pay"))?.is_ok() {
            paid += 1;
        }
    }
    let mails: Vec<Mail> = mails.iter().take(ORDERS).collect();
    let mut late: Vec<Duration> = mails.iter().filter_map(|mail| mail.late).collect();
    late.sort_unstable();
    println!("{ORDERS} orders: {paid} paid, {} expired", late.len());
    if let [first, .., last] = late[..] {
        println!(
            "late by {first:?} to {last:?}, half of them by {:?}",
            late[late.len() / 2]
        );
    }
    Ok(())
}

/// A folder that is removed at the end of the run.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("orders-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
