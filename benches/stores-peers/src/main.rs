//! The peers in the comparison of durable queues: each with batches of a hundred, and otherwise
//! with default settings. In the case of a hundred handlers, each with its fastest settings.

mod apalis;
mod graphile;
mod pgmq;
mod runtime;
mod sqlxmq;
mod underway;

use std::time::Duration;

use stores::{Can, Contender, Needs, Outcome, Queue};

use apalis::{Apalis, Handlers};
use graphile::Graphile;
use pgmq::Pgmq;
use runtime::{BATCH, Pace};
use sqlxmq::Sqlxmq;
use underway::Underway;

/// Concurrent handlers of a worker.
const FEW: usize = 10;
const MANY: usize = 100;

fn main() {
    stores::main(&[
        on_postgres("graphile_worker", Can::All, |address| {
            let pace = Pace {
                handlers: FEW,
                batch: BATCH,
                poll: Duration::from_secs(1), // Its default.
            };
            Ok(Box::new(Graphile::open(address, pace)?))
        }),
        on_postgres("graphile_worker", Can::Handle, |address| {
            // As in its own benchmark of throughput, but for the handlers.
            let pace = Pace {
                handlers: MANY,
                batch: 5_000,
                poll: Duration::from_millis(5),
            };
            Ok(Box::new(Graphile::open(address, pace)?))
        }),
        on_postgres("pgmq", Can::All, |address| {
            Ok(Box::new(Pgmq::open(address)?))
        }),
        on_postgres("apalis-postgres", Can::AllButLook, |address| {
            Ok(Box::new(Apalis::postgres(address, BATCH, Handlers::Apart)?))
        }),
        on_postgres("apalis-postgres", Can::Handle, |address| {
            // Tasks for empty handlers cost more than they gain, and so does a layer that limits the handlers.
            Ok(Box::new(Apalis::postgres(
                address,
                1_000,
                Handlers::Together,
            )?))
        }),
        on_postgres("sqlxmq", Can::All, |address| {
            Ok(Box::new(Sqlxmq::open(address)?))
        }),
        on_postgres("sqlxmq", Can::Handle, |address| {
            Ok(Box::new(Sqlxmq::open(address)?))
        }),
        on_postgres("underway", Can::All, |address| {
            Ok(Box::new(Underway::open(address, FEW)?))
        }),
        on_postgres("underway", Can::Handle, |address| {
            Ok(Box::new(Underway::open(address, MANY)?))
        }),
        Contender {
            name: "apalis-redis",
            needs: Needs::Redis,
            open: |address| Ok(Box::new(Apalis::redis(address)?)),
            can: Can::AllButLook,
        },
    ]);
}

const fn on_postgres(
    name: &'static str,
    can: Can,
    open: fn(&str) -> Outcome<Box<dyn Queue>>,
) -> Contender {
    Contender {
        name,
        needs: Needs::Postgres,
        open,
        can,
    }
}
