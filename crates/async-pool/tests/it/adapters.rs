//! The pool as an executor of other crates, with their own servers, clients and services.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use async_pool::{AsyncPool, JoinError, PoolLayer, ServiceError, SubmitError};
use futures_lite::future::block_on;
use futures_task::{Spawn, SpawnError};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::Executor;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use crate::{Live, pool};

#[testkit::test]
fn futures_task_spawns_and_is_refused_by_a_full_or_released_pool() {
    fn spawn(
        spawner: impl Spawn,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), SpawnError> {
        spawner.spawn_obj(Box::pin(future).into())
    }
    let pool = pool(1, 1);
    spawn(&pool, ready(())).unwrap();
    pool.wait_idle().unwrap();
    spawn(&pool, pending()).unwrap();
    assert!(pool.status().is_ok());
    assert!(spawn(&pool, ready(())).unwrap_err().is_shutdown());
    pool.release_now();
    assert!(pool.status().is_err());
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?;
    Ok(Response::new(Full::new(body.to_bytes())))
}

/// Both sides of a connection run in one pool, the requests of the server in another one of two places.
#[testkit::test]
fn http2_over_a_real_connection_runs_in_the_pool() {
    const REQUESTS: usize = 20;
    let connections = pool(1, 100);
    let requests = pool(2, 2);
    let (client, server) = tokio::io::duplex(4096);
    let server = hyper::server::conn::http2::Builder::new(requests.clone())
        .serve_connection(TokioIo::new(server), hyper::service::service_fn(echo));
    connections.submit(async { server.await.unwrap() }).unwrap();
    let answers = connections.spawn({
        let connections = connections.clone();
        async move {
            let (mut send, connection) =
                hyper::client::conn::http2::handshake(connections.clone(), TokioIo::new(client))
                    .await
                    .unwrap();
            connections
                .submit_async(async { connection.await.unwrap() })
                .await
                .unwrap();
            let group = connections.group();
            for n in 0..REQUESTS {
                let body = Full::new(Bytes::from(n.to_string()));
                let answer = send.send_request(Request::post("http://ants/").body(body).unwrap());
                group
                    .spawn_async(async move {
                        let body = answer.await.unwrap().into_body().collect().await.unwrap();
                        assert_eq!(body.to_bytes(), n.to_string().as_bytes());
                    })
                    .await
                    .unwrap();
            }
            group.wait_async().await.unwrap();
        }
    });
    answers.unwrap().join().unwrap();
    connections.wait_idle().unwrap(); // The client has closed the connection.
    requests.wait_idle().unwrap();
    let stats = requests.stats();
    assert!(stats.completed >= REQUESTS as u64);
    assert!(stats.peak_live <= 2);
}

#[testkit::test]
fn hypers_executor_queues_futures_at_a_full_pool_and_drops_them_at_its_release() {
    let pool = pool(1, 1);
    let live = Live::new();
    let block = pool.spawn(pending::<()>()).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let run = Arc::clone(&ran);
    Executor::execute(&pool, async move { run.fetch_add(1, SeqCst) });
    assert_eq!(pool.stats().waiting, 1);
    assert!(matches!(
        block_on(block.cancelled()),
        Err(JoinError::Cancelled)
    ));
    pool.wait_idle().unwrap();
    assert_eq!(ran.load(SeqCst), 1);
    pool.submit(pending::<()>()).unwrap();
    let guard = live.one();
    Executor::execute(&pool, async move { drop(guard) });
    pool.release_now();
    pool.wait_released().unwrap();
    assert_eq!(live.count(), 0);
}

async fn double(n: u32) -> Result<u32, Infallible> {
    Ok(2 * n)
}

#[testkit::test]
fn a_tower_service_runs_its_requests_in_the_pool() {
    let pool = pool(2, 4);
    let mut service = ServiceBuilder::new()
        .layer(PoolLayer::new(pool.clone()))
        .service(service_fn(double));
    for n in 0..10 {
        let answer = block_on(async { service.ready().await?.call(n).await });
        assert_eq!(answer.unwrap(), 2 * n);
    }
    assert_eq!(pool.stats().completed, 10);
}

#[testkit::test]
fn a_tower_service_waits_for_room_or_refuses_as_it_is_told() {
    let pool = pool(1, 1);
    let layer = PoolLayer::new(pool.clone());
    let block = pool.spawn(pending::<()>()).unwrap();
    let refusing = ServiceBuilder::new()
        .layer(layer.clone().refuse())
        .service(service_fn(double));
    let answer = block_on(refusing.clone().oneshot(1));
    assert!(matches!(
        answer,
        Err(ServiceError::Refused(SubmitError::Full(())))
    ));

    let mut waiting = ServiceBuilder::new()
        .layer(layer)
        .service(service_fn(double));
    let mut ready = Box::pin(waiting.ready());
    assert!(block_on(futures_lite::future::poll_once(&mut ready)).is_none());
    assert!(matches!(
        block_on(block.cancelled()),
        Err(JoinError::Cancelled)
    ));
    let service = block_on(ready).unwrap();
    assert_eq!(pool.stats().reserved, 1);
    // A clone has no room: its request is refused while the permit is held.
    assert!(block_on(refusing.clone().oneshot(1)).is_err());
    assert_eq!(block_on(service.call(21)).unwrap(), 42);
    assert_eq!(block_on(refusing.oneshot(1)).unwrap(), 2);
    drop(waiting);
    assert_eq!(pool.stats().reserved, 0);
}

#[testkit::test]
fn a_dropped_response_cancels_its_request_and_a_panic_is_an_error() {
    let pool = pool(1, 1);
    let live = Live::new();
    let counter = live.clone();
    let mut service = ServiceBuilder::new()
        .layer(PoolLayer::new(pool.clone()))
        .service_fn(move |panics: bool| {
            let guard = counter.one();
            async move {
                assert!(!panics, "a bad request");
                let _guard = guard;
                pending::<Result<(), Infallible>>().await
            }
        });
    let response = block_on(service.ready()).unwrap().call(false);
    drop(response);
    pool.wait_idle().unwrap();
    assert_eq!((pool.stats().cancelled, live.count()), (1, 0));
    let answer = block_on(async { service.ready().await.unwrap().call(true).await });
    assert!(matches!(
        answer,
        Err(ServiceError::Lost(JoinError::Panicked(_)))
    ));
}

#[testkit::test]
fn a_released_pool_refuses_requests() {
    let pool: AsyncPool = pool(1, 1);
    pool.release();
    let service = ServiceBuilder::new()
        .layer(PoolLayer::new(pool))
        .service(service_fn(double));
    assert!(matches!(
        block_on(service.oneshot(1)),
        Err(ServiceError::Refused(SubmitError::Released(())))
    ));
}
