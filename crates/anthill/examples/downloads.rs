//! Downloads a list of pages, at most four at a time: `downloads HOST:PORT..` (plain HTTP). Without
//! arguments it downloads from itself.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use anthill::{DropPolicy, Pool};

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder()
        .name("downloads")
        .capacity(4)
        .drop_policy(DropPolicy::Join)
        .build()?;
    let mut addresses: Vec<String> = std::env::args().skip(1).collect();
    if addresses.is_empty() {
        addresses = vec![serve()?; 10];
    }
    let mut pages = Vec::new();
    for address in addresses {
        let fetched = address.clone();
        // Waits while four are under way, so a long list is read no faster than it is fetched.
        pages.push((address, pool.spawn(move || fetch(&fetched))?));
    }
    for (address, page) in pages {
        match page.join()? {
            Ok(page) => println!("{address}: {} bytes", page.len()),
            Err(failed) => eprintln!("{address}: {failed}"),
        }
    }
    Ok(())
}

fn fetch(address: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET / HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page)?;
    Ok(page)
}

/// A server on this machine that answers everything with one page.
fn serve() -> io::Result<String> {
    let listener = TcpListener::bind("localhost:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that went away is its own affair.
            let _ = (&stream).read(&mut [0; 512]);
            let _ = (&stream).write_all(b"HTTP/1.0 200 OK\r\n\r\nhello");
        }
    });
    Ok(address)
}
