//! `shop_async [FILE ADDRESS MILLISECONDS PATTERN]`: a shop as an axum service, whose data and jobs are in one database.
//!
//! ```text
//! POST /users/ann ──────────> user + welcome mail          one transaction each
//! POST /users/ann/orders ───> order + its timeout
//! POST /orders/7/pay ───────> paid + mail
//!       timeout of order 7 ─> expired + mail
//!       every night ────────> a report
//! ```
//!
//! A change and its jobs commit together, so there is no order without a timeout, and no mail about a change that was
//! rolled back. The process may be killed at any moment: the next one continues. A job is delivered at least once, so each
//! handler may find its work done.
//!
//! With arguments it serves until a signal: orders expire after MILLISECONDS, and reports have the cron pattern PATTERN.
//! It prints its address, and then a line per mail and report. Without arguments it serves some orders itself, and prints
//! their final states.

mod jobs;
mod routes;
mod shop;

use std::path::{Path, PathBuf};
use std::time::Duration;

use durable_queue::ShutDown;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::shop::{Failure, Shop};

/// How long running requests and handlers are waited for after a signal.
const GRACE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => demonstrate().await,
        [file, address, millis, pattern] => {
            let time_to_pay = Duration::from_millis(millis.parse()?);
            let shop = Shop::open(Path::new(file), time_to_pay).await?;
            serve(&shop, address, pattern).await
        }
        _ => Err("usage: shop_async [FILE ADDRESS MILLISECONDS PATTERN]".into()),
    }
}

/// Serves until SIGTERM.
async fn serve(shop: &Shop, address: &str, pattern: &str) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    shop.report_at(pattern).await?;
    let (ends, _) = tokio::sync::watch::channel(false);
    let ended = || {
        let mut ends = ends.subscribe();
        async move { _ = ends.wait_for(|is_over| *is_over).await }
    };
    let server = axum::serve(listener, routes::router(shop.clone()));
    let signalled = async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        ends.send_replace(true);
        Ok(())
    };
    let ((), (), jobs) = tokio::try_join!(
        signalled,
        async { Ok(server.with_graceful_shutdown(ended()).await?) },
        jobs::run(shop, GRACE, ended()),
    )?;
    match jobs {
        ShutDown::Finished => Ok(()),
        cut => Err(format!("jobs were cut off ({cut:?}); the next process takes them").into()),
    }
}

async fn demonstrate() -> Result<(), Failure> {
    const ORDERS: usize = 30;
    let folder = Scratch::new()?;
    let shop = Shop::open(&folder.0.join("shop"), Duration::from_millis(300)).await?;
    let orders = async {
        for number in 0..ORDERS {
            let user = shop.sign_up(&format!("user {number}")).await?;
            let order = shop.order(user).await?;
            if number % 3 == 0 {
                shop.pay(order).await?;
            }
        }
        // A mail for each sign-up, and one for each order.
        while shop.sent().await? < 2 * ORDERS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    let (done, is_done) = tokio::sync::oneshot::channel::<()>();
    let orders = async {
        let ended = orders.await;
        drop(done);
        ended
    };
    let (_, ()) = tokio::try_join!(jobs::run(&shop, GRACE, is_done), orders)?;
    let figures = shop.figures().await?;
    println!("{ORDERS} users with an order each: {figures}");
    Ok(())
}

/// A folder that is removed at the end of the run.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("shop_async-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
