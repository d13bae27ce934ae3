//! The peers in the comparison of durable queues: each with batches of a hundred, and otherwise
//! with default settings.

mod apalis;
mod graphile;
mod pgmq;
mod runtime;
mod sqlxmq;
mod underway;

use stores::{Can, Contender, Needs};

fn main() {
    stores::main(&[
        Contender {
            name: "graphile_worker",
            needs: Needs::Postgres,
            open: |address| Ok(Box::new(graphile::Graphile::open(address)?)),
            can: Can::All,
        },
        Contender {
            name: "pgmq",
            needs: Needs::Postgres,
            open: |address| Ok(Box::new(pgmq::Pgmq::open(address)?)),
            can: Can::All,
        },
        Contender {
            name: "apalis-postgres",
            needs: Needs::Postgres,
            open: |address| Ok(Box::new(apalis::Apalis::postgres(address)?)),
            can: Can::AllButLook,
        },
        Contender {
            name: "sqlxmq",
            needs: Needs::Postgres,
            open: |address| Ok(Box::new(sqlxmq::Sqlxmq::open(address)?)),
            can: Can::All,
        },
        Contender {
            name: "underway",
            needs: Needs::Postgres,
            open: |address| Ok(Box::new(underway::Underway::open(address)?)),
            can: Can::All,
        },
        Contender {
            name: "apalis-redis",
            needs: Needs::Redis,
            open: |address| Ok(Box::new(apalis::Apalis::redis(address)?)),
            can: Can::AllButLook,
        },
    ]);
}
