/** The longest row of any format, in bytes of UTF-8 without its line end. A user takes less than a tenth of it. */
export const MAX_ROW_BYTES = 1024 ** 2

/** The content of a record whose row is longer. Such a row is not parsed. */
export const TOO_LONG = { problem: `is longer than ${MAX_ROW_BYTES} bytes` }
