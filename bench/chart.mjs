// A bar chart as SVG: for each workload, the CPU time per request of each server.
import { SERVERS } from './servers.mjs'

const COLORS = [
  '#0b7a75',
  '#53b3ae',
  '#8a8f98',
  '#c9a227',
  '#d1603d',
  '#7b4b94',
  '#3f6fb5',
  '#b0653a',
]

const WIDTH = 860
const LEFT = 290
const RIGHT = 60
const BAR = 16
const GAP = 4
const TITLE = 34

/** The chart of a summary of report.mjs. Each workload has a scale of its own. */
export function chartOf(summary) {
  let y = 44
  const parts = []
  for (const { label, servers } of summary) {
    const most = Math.max(...servers.map(row => row.cpuMicros))
    parts.push(text(10, y + 16, escaped(label), 'class="workload"'))
    y += TITLE - 8
    for (const row of servers) {
      const length = ((WIDTH - LEFT - RIGHT) * row.cpuMicros) / most
      const color = COLORS[Object.keys(SERVERS).indexOf(row.server) % COLORS.length]
      const bar = `<rect x="${LEFT}" y="${y}" width="${length.toFixed(1)}" height="${BAR}" fill="${color}"/>`
      const name = text(LEFT - 8, y + 12, escaped(SERVERS[row.server].label), 'class="server"')
      const value = text((LEFT + length + 6).toFixed(1), y + 12, row.cpuMicros.toFixed(0), '')
      parts.push(bar, name, value)
      y += BAR + GAP
    }
    y += 10
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" role="img" aria-labelledby="title">`,
    '<title id="title">CPU time per request, in microseconds: lower is better</title>',
    '<style>text{font:12px system-ui,sans-serif;fill:#333}.workload,.title{font-weight:600}.server{text-anchor:end}</style>',
    `<rect width="${WIDTH}" height="${y}" fill="#fff"/>`,
    text(10, 24, 'CPU time per request, µs (lower is better)', 'class="title"'),
    ...parts,
    '</svg>\n',
  ].join('\n')
}

function text(x, y, content, attributes) {
  return `<text x="${x}" y="${y}"${attributes && ` ${attributes}`}>${content}</text>`
}

function escaped(content) {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
