//! Scales a picture.

use crate::Size;
use image::error::{ImageFormatHint, UnsupportedError};
use image::{DynamicImage, GenericImageView, ImageDecoder, ImageError, ImageReader, ImageResult};
use std::io::Cursor;

/// An encoded thumbnail, and the sizes of both pictures.
pub(crate) struct Thumbnail {
    pub(crate) file: Vec<u8>,
    pub(crate) from: Size,
    pub(crate) to: Size,
}

/// Scales a picture to fit into a square of this size. A smaller picture keeps its size. The format
/// is that of the content, whatever the file's name is. The decoder rejects pictures that exceed
/// `image`'s memory limit, so that a small file cannot exhaust the memory.
pub(crate) fn make(file: &[u8], size: u32) -> ImageResult<Thumbnail> {
    let reader = ImageReader::new(Cursor::new(file)).with_guessed_format()?;
    let format = reader
        .format()
        .ok_or_else(|| ImageError::Unsupported(UnsupportedError::from(ImageFormatHint::Unknown)))?;
    let mut decoder = reader.into_decoder()?;
    let orientation = decoder.orientation()?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation); // The thumbnail has no orientation tag.
    let from = image.dimensions();
    if from.0.max(from.1) > size {
        image = image.thumbnail(size, size);
    }
    let to = image.dimensions();
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, format)?;
    Ok(Thumbnail {
        file: file.into_inner(),
        from: Size(from.0, from.1),
        to: Size(to.0, to.1),
    })
}
