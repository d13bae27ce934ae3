//! The jobs, and their handlers.

use std::future::Future;
use std::time::Duration;

use durable_queue::{Job, Json, Kind, KindOptions, ShutDown, Worker};
use serde::{Deserialize, Serialize};

use crate::shop::{Failure, Shop};

/// A mail to send.
#[derive(Serialize, Deserialize)]
pub(crate) struct Mail {
    /// Mails with the same id are sent once.
    pub(crate) id: String,
    pub(crate) text: String,
}

impl Kind for Mail {
    const NAME: &'static str = "mail";
}

impl Mail {
    pub(crate) fn new(id: String, text: String) -> Self {
        Self { id, text }
    }
}

/// The timeout of an order.
#[derive(Serialize, Deserialize)]
pub(crate) struct Expire {
    pub(crate) order: i64,
}

impl Kind for Expire {
    const NAME: &'static str = "expire";
}

/// A report on all orders.
#[derive(Serialize, Deserialize)]
pub(crate) struct Report {}

impl Kind for Report {
    const NAME: &'static str = "report";
}

/// Runs the handlers until `signal`. Running handlers then have `grace` to end.
pub(crate) async fn run(
    shop: &Shop,
    grace: Duration,
    signal: impl Future,
) -> Result<ShutDown, Failure> {
    let one_at_a_time = KindOptions::new().concurrency(1);
    let worker = Worker::builder(shop.jobs.clone())
        .concurrency(100)
        .grace(grace)
        .context(shop.clone())
        .on_async(send)
        .on_async(expire)
        .on_async_with(one_at_a_time, report);
    Ok(worker.run_async().until(signal).await?)
}

async fn send(mail: Job<Json<Mail>>, shop: Shop) -> Result<(), Failure> {
    shop.send(&mail.0).await?;
    println!("mail {}", mail.0.id);
    Ok(())
}

async fn expire(timeout: Job<Json<Expire>>, shop: Shop) -> Result<(), Failure> {
    shop.end(timeout.0.order, "expired").await?;
    Ok(())
}

async fn report(job: Job<Json<Report>>, shop: Shop) -> Result<(), Failure> {
    // The time of the run, not the current one: a run that is repeated makes the same report.
    let at = job.due().as_micros();
    shop.report(at).await?;
    println!("report {at}");
    Ok(())
}
