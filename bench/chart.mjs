// The chart of docs/performance.md as SVG, which follows the light or dark scheme of the reader.
import { SERVERS } from './servers.mjs'
import { titleOf } from './summary.mjs'

const COLORS = ['#0b7a75', '#53b3ae', '#8a8f98', '#c9a227', '#d1603d', '#9b6bb4']

const STYLE = [
  'text{font:12px system-ui,sans-serif;fill:#333}',
  '.strong{font-weight:600}.end{text-anchor:end}.paper{fill:#fff}',
  '@media(prefers-color-scheme:dark){text{fill:#ddd}.paper{fill:#0d1117}}',
].join('')

const TITLE = 'CPU time per request on SQLite, µs (lower is better)'

const WIDTH = 860
const LEFT = 290
const RIGHT = 70
const BAR = 16
const GAP = 4

/** The CPU time per request. Each table has a scale of its own, each server its color. */
export function barsOfCpu(tables) {
  let y = 44
  const content = []
  for (const part of tables) {
    const most = Math.max(...part.servers.map(({ cpuMicros }) => cpuMicros))
    content.push(text(10, y + 16, titleOf(part), 'strong'))
    y += 26
    for (const { server, cpuMicros } of part.servers) {
      const color = COLORS[Object.keys(SERVERS).indexOf(server)]
      const length = ((WIDTH - LEFT - RIGHT) * cpuMicros) / most
      content.push(
        `<rect x="${LEFT}" y="${y}" width="${length.toFixed(1)}" height="${BAR}" fill="${color}"/>`,
        text(LEFT - 8, y + 12, SERVERS[server].label, 'end'),
        text((LEFT + length + 6).toFixed(1), y + 12, Math.round(cpuMicros)),
      )
      y += BAR + GAP
    }
    y += 10
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" role="img" aria-labelledby="title">`,
    `<title id="title">${TITLE}</title>`,
    `<style>${STYLE}</style>`,
    `<rect width="${WIDTH}" height="${y}" class="paper"/>`,
    text(10, 24, TITLE, 'strong'),
    ...content,
    '</svg>\n',
  ].join('\n')
}

function text(x, y, content, className) {
  const attribute = className === undefined ? '' : ` class="${className}"`
  const escaped = String(content).replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  return `<text x="${x}" y="${y}"${attribute}>${escaped}</text>`
}
