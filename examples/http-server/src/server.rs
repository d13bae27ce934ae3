//! The server: accepts connections, and spawns their requests.

use std::convert::Infallible;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_pool::{AsyncPool, Capacity, JoinHandle};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use crate::{Options, pool};

const LARGEST_BODY: usize = 64 * 1_024;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<Infallible>,
    graceful: Arc<GracefulShutdown>,
    connections: AsyncPool,
    app: Arc<App>,
}

/// State shared by all connections.
struct App {
    requests: AsyncPool,
    work: Duration,
}

impl Server {
    /// Starts to accept.
    ///
    /// # Errors
    /// If the port is in use, or a thread cannot be started.
    pub(crate) fn start(options: &Options, runtime: &Handle) -> Result<Self, Box<dyn Error>> {
        let app = Arc::new(App {
            requests: pool("requests", options.capacity, runtime)?,
            work: options.work,
        });
        let connections = pool("connections", Capacity::Unlimited, runtime)?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)))?;
        let address = listener.local_addr()?;
        let graceful = Arc::new(GracefulShutdown::new());
        let accepting = connections.spawn(accept(
            listener,
            connections.clone(),
            Arc::clone(&graceful),
            Arc::clone(&app),
        ));
        let accepting = accepting.map_err(|error| error.map(drop))?;
        Ok(Self {
            address,
            accepting,
            graceful,
            connections,
            app,
        })
    }

    /// Maximum number of live requests so far.
    pub(crate) fn peak(&self) -> usize {
        self.app.requests.stats().peak_live
    }

    /// Closes the listener and idle connections, and waits for open requests.
    pub(crate) fn stop(self) -> Result<(), Box<dyn Error>> {
        self.accepting.cancel();
        _ = self.accepting.join(); // Until the task and its listener have been dropped.
        let graceful = Arc::into_inner(self.graceful).ok_or("the listener is open")?;
        let closed = self.connections.spawn(graceful.shutdown());
        closed.map_err(|error| error.map(drop))?.join()?;
        self.connections.release();
        self.connections.wait_released()?;
        self.app.requests.release();
        Ok(self.app.requests.wait_released()?)
    }
}

async fn accept(
    listener: TcpListener,
    connections: AsyncPool,
    graceful: Arc<GracefulShutdown>,
    app: Arc<App>,
) -> Infallible {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is left. The connections that end return theirs.
            async_pool::yield_now().await;
            continue;
        };
        let app = Arc::clone(&app);
        let service = service_fn(move |request| respond(Arc::clone(&app), request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        // An error is the client's end of the connection. The pool has no limit, and is released later.
        _ = connections.try_submit(async move { _ = connection.await });
    }
}

async fn respond(
    app: Arc<App>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/stats" {
        let stats = app.requests.stats();
        let text = format!("live {}, refused {}\n", stats.live, stats.refused);
        return Ok(Response::new(text.into()));
    }
    let Ok(handle) = app.requests.try_spawn(handle(request, app.work)) else {
        let mut full = with_status(StatusCode::SERVICE_UNAVAILABLE);
        full.headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
        return Ok(full);
    };
    let response = handle.cancel_on_drop().await;
    Ok(response.unwrap_or_else(|_panicked| with_status(StatusCode::INTERNAL_SERVER_ERROR)))
}

async fn handle(request: Request<Incoming>, work: Duration) -> Response<Full<Bytes>> {
    let Ok(body) = Limited::new(request.into_body(), LARGEST_BODY)
        .collect()
        .await
    else {
        return with_status(StatusCode::PAYLOAD_TOO_LARGE);
    };
    async_pool::sleep(work).await;
    Response::new(body.to_bytes().into())
}

fn with_status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
