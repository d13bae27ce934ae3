//! Size limits of jobs.

use durable_queue::store::{Act, Settle};
use durable_queue::{Cancelled, CarriedOut, ErrorKind, NewJob, PushIn, Store, StoreError, Which};
use durable_queue_postgres::{KEY_LIMIT, PAYLOAD_LIMIT};

use super::Database;
use crate::alike::{JOB, claim_of, count};

fn is_too_large(error: &StoreError) {
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(error.carried_out(), CarriedOut::No);
    assert!(!error.is_transient());
}

/// Incompressible, because indexes compress their entries.
fn noise(bytes: usize) -> Vec<u8> {
    let mut rng = testkit::Rng::from_env();
    let words = (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes());
    words.take(bytes).collect()
}

/// As text of one byte per character.
fn name(bytes: usize) -> String {
    let letters = noise(bytes).into_iter();
    letters.map(|byte| char::from(b' ' + byte % 95)).collect()
}

#[test]
fn jobs_of_the_maximum_size_are_returned_and_larger_ones_are_rejected() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    let mut payload = noise(PAYLOAD_LIMIT);
    let key = noise(KEY_LIMIT);
    let queue = name(KEY_LIMIT);
    let job = NewJob {
        payload: &payload,
        key: Some(&key),
        ..JOB
    };
    store.enqueue(&queue, &[job]).unwrap();
    let claim = claim_of(1);
    let turn = store.turn(&queue, &[], Some(claim)).unwrap();
    let lease = turn.claimed.unwrap().leases.remove(0);
    assert!(lease.payload == payload && lease.key.as_ref() == Some(&key));
    let bury = Settle {
        id: lease.id,
        token: claim.token,
        act: Act::bury(""),
    };
    store.turn(&queue, &[bury], None).unwrap();
    assert!(store.dead(&queue, None, 1).unwrap()[0].payload == payload);
    assert_eq!(store.redrive(&queue, &[lease.id]).unwrap(), 1);
    let cancelled = store.cancel(&queue, Which::Key(&key)).unwrap();
    assert!(matches!(cancelled, Cancelled::Gone { payload: it, .. } if it == payload));

    payload.push(0);
    let key = noise(KEY_LIMIT + 1);
    let larger = NewJob {
        payload: &payload,
        ..JOB
    };
    let longer = NewJob {
        key: Some(&key),
        ..JOB
    };
    let full = NewJob {
        payload: &payload[1..],
        ..JOB
    };
    let mut own = database.session();
    let mut transaction = own.transaction().unwrap();
    for jobs in [&[larger][..], &[longer], &[JOB, longer], &[full; 5]] {
        is_too_large(&store.enqueue("queue", jobs).unwrap_err());
        let refused = store.enqueue_in(&mut transaction, "queue", jobs);
        is_too_large(&refused.unwrap_err());
    }
    is_too_large(&store.enqueue(&name(KEY_LIMIT + 1), &[JOB]).unwrap_err());
    // Nothing was sent, so the transaction can continue.
    store.enqueue_in(&mut transaction, "queue", &[JOB]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(count(store), 1);
    let never = store.cancel("queue", Which::Key(&key)).unwrap();
    assert!(matches!(never, Cancelled::Never));
}

/// Pushes by SQL are not checked here: the server rejects them, and its error is reported.
#[test]
fn jobs_that_the_server_finds_too_large_are_reported_as_too_large() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    let queue = name(16 << 10);
    is_too_large(&store.pause(&queue, true).unwrap_err());
    is_too_large(&store.turn(&queue, &[], None).unwrap_err());
    store.enqueue("queue", &[JOB]).unwrap();
    assert_eq!(count(store), 1);
}
