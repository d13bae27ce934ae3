//! The peers, in the comparison of durable queues: each with batches of a hundred, and otherwise as it
//! is delivered.

mod apalis;
mod graphile;
mod pgmq;
mod runtime;

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
            open: |address| Ok(Box::new(apalis::Apalis::open(address)?)),
            can: Can::AllButLook,
        },
    ]);
}
