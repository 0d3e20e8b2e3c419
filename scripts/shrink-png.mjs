// Makes the PNG of a screenshot smaller: 256 colors, and the best compression.

import { crc32, deflateSync, inflateSync } from 'node:zlib'

const SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex')

/** The same picture with its 256 most frequent colors; other colors become the nearest of these. */
export function shrinkPng(png) {
  const { width, height, pixels } = decode(png)
  const counts = new Map()
  for (const color of pixels) counts.set(color, (counts.get(color) ?? 0) + 1)
  const palette = [...counts.keys()]
    .toSorted((one, other) => counts.get(other) - counts.get(one))
    .slice(0, 256)
  const indexes = new Map(palette.map((color, index) => [color, index]))
  for (const color of counts.keys()) {
    if (!indexes.has(color)) indexes.set(color, nearest(color, palette))
  }
  const rows = Buffer.alloc(height * (width + 1))
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      rows[y * (width + 1) + 1 + x] = indexes.get(pixels[y * width + x])
    }
  }
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 3, 0, 0, 0])
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('PLTE', Buffer.from(palette.flatMap(color => [...channels(color)]))),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** The colors of a PNG of 8 bits for each channel, without its transparency. */
function decode(png) {
  const data = []
  let header
  for (let at = SIGNATURE.length; at < png.length; ) {
    const length = png.readUInt32BE(at)
    const type = png.toString('latin1', at + 4, at + 8)
    const content = png.subarray(at + 8, at + 8 + length)
    if (type === 'IHDR') header = content
    if (type === 'IDAT') data.push(content)
    at += length + 12
  }
  const width = header.readUInt32BE(0)
  const height = header.readUInt32BE(4)
  const [depth, kind, , , interlaced] = header.subarray(8)
  if (depth !== 8 || (kind !== 2 && kind !== 6) || interlaced !== 0) {
    throw new Error('not a PNG as Chromium writes it')
  }
  const size = kind === 2 ? 3 : 4
  const bytes = unfilter(inflateSync(Buffer.concat(data)), width * size, size)
  const pixels = new Uint32Array(width * height)
  for (let index = 0; index < pixels.length; index++) {
    pixels[index] = bytes.readUIntBE(index * size, 3)
  }
  return { width, height, pixels }
}

/** Undoes what PNG does to each row before it is compressed. */
function unfilter(raw, stride, size) {
  const bytes = Buffer.alloc((raw.length / (stride + 1)) * stride)
  for (let row = 0; row * stride < bytes.length; row++) {
    const filter = raw[row * (stride + 1)]
    for (let column = 0; column < stride; column++) {
      const at = row * stride + column
      const left = column < size ? 0 : bytes[at - size]
      const up = row === 0 ? 0 : bytes[at - stride]
      const corner = column < size || row === 0 ? 0 : bytes[at - stride - size]
      const predicted = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter]
      bytes[at] = raw[row * (stride + 1) + 1 + column] + predicted
    }
  }
  return bytes
}

function paeth(left, up, corner) {
  const [toLeft, toUp] = [Math.abs(up - corner), Math.abs(left - corner)]
  const toCorner = Math.abs(left + up - 2 * corner)
  if (toLeft <= toUp && toLeft <= toCorner) return left
  return toUp <= toCorner ? up : corner
}

function channels(color) {
  return [color >> 16, (color >> 8) & 255, color & 255]
}

function nearest(color, palette) {
  const [red, green, blue] = channels(color)
  let best = 0
  let least = Number.POSITIVE_INFINITY
  for (const [index, other] of palette.entries()) {
    const [otherRed, otherGreen, otherBlue] = channels(other)
    const distance = (red - otherRed) ** 2 + (green - otherGreen) ** 2 + (blue - otherBlue) ** 2
    if (distance < least) [best, least] = [index, distance]
  }
  return best
}

function chunk(type, content) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), content])
  const framed = Buffer.alloc(body.length + 8)
  framed.writeUInt32BE(content.length, 0)
  body.copy(framed, 4)
  framed.writeUInt32BE(crc32(body), body.length + 4)
  return framed
}
