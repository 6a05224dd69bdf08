//! The C interface of the TidesDB storage engine.
