//! The shop's HTTP interface: three requests.

use std::error::Error;
use std::thread;

use tiny_http::{Method, Request, Response};

use crate::books::Books;
use crate::shop::Shop;

const THREADS: usize = 4;

pub(crate) struct Server(tiny_http::Server);

impl Server {
    pub(crate) fn bind(address: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let server = tiny_http::Server::http(address);
        Ok(Self(server.map_err(|error| error.to_string())?))
    }

    /// Returns the address on which it listens.
    pub(crate) fn address(&self) -> String {
        self.0.server_addr().to_string()
    }

    /// Serves requests. Does not return.
    pub(crate) fn serve(&self, shop: &Shop<impl Books>) {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while let Ok(request) = self.0.recv() {
                        answer(shop, request);
                    }
                });
            }
        });
    }
}

fn answer(shop: &Shop<impl Books>, request: Request) {
    let (status, text) = match route(shop, request.method(), request.url()) {
        Ok(answer) => answer,
        Err(error) => (500, error.to_string()),
    };
    // The client may have disconnected.
    request
        .respond(Response::from_string(text).with_status_code(status))
        .ok();
}

fn route(
    shop: &Shop<impl Books>,
    method: &Method,
    path: &str,
) -> Result<(u16, String), Box<dyn Error + Send + Sync>> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    Ok(match (method, &parts[..]) {
        (Method::Post, ["orders"]) => (201, shop.order()?.to_string()),
        (Method::Post, ["orders", order, "pay"]) => {
            if shop.pay(order.parse()?)? {
                (200, "paid".to_owned())
            } else {
                (409, "too late".to_owned())
            }
        }
        (Method::Get, ["orders", order]) => match shop.state(order.parse()?)? {
            Some(state) => (200, state),
            None => (404, "unknown order".to_owned()),
        },
        _ => (404, "unknown page".to_owned()),
    })
}
