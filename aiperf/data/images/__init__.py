"""Operations on one image: decoding, crops, noise, transfer to a device."""
