//! A client that loads the server through many connections.

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;

use async_pool::{AsyncPool, Capacity};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::server::Server;
use crate::{Options, pool, runtime};

const CONNECTIONS: usize = 200;
const REQUESTS: usize = 20;

type Failure = Box<dyn Error + Send + Sync>;

/// Starts a server, loads it, and prints the answers. Fails if an answer is neither 200 nor 503.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let runtime = runtime()?;
    let server = Server::start(options, runtime.handle())?;
    let clients = pool("clients", Capacity::Unlimited, runtime.handle())?;
    println!(
        "Without arguments: {CONNECTIONS} connections, {REQUESTS} requests each, at most {} at a time",
        options.capacity
    );
    let mut handles = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = client(clients.clone(), server.address);
        handles.push(clients.spawn(client).map_err(|error| error.map(drop))?);
    }
    let (mut answered, mut refused) = (0, 0);
    for handle in handles {
        let (good, full) = handle.join()?.map_err(|failure| failure.to_string())?;
        answered += good;
        refused += full;
    }
    let peak = server.peak();
    server.stop()?;
    println!("{answered} answered, {refused} refused; at most {peak} at a time");
    let is_right = answered + refused == CONNECTIONS * REQUESTS && peak <= options.capacity;
    Ok(ExitCode::from(u8::from(!is_right)))
}

/// Makes the requests of one connection. Returns the numbers of answers and of refusals.
async fn client(pool: AsyncPool, server: SocketAddr) -> Result<(usize, usize), Failure> {
    let stream = TcpStream::connect(server).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = pool
        .try_spawn(connection)
        .map_err(|error| error.map(drop))?;
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..REQUESTS {
        // Without a body: hyper closes a connection whose request was refused before its body had arrived.
        let request = Request::get("/").header(HOST, "localhost");
        let request = request.body(Empty::<Bytes>::new())?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        match response.status() {
            StatusCode::OK => answered += 1,
            StatusCode::SERVICE_UNAVAILABLE => refused += 1,
            other => return Err(format!("the answer is {other}").into()),
        }
    }
    drop(sender); // Ends the connection.
    connection.await??;
    Ok((answered, refused))
}
