// Charts as SVG, which follow the light or dark scheme of the reader.
import { titleOf } from './report.mjs'
import { SERVERS } from './servers.mjs'

const COLORS = [
  '#0b7a75',
  '#53b3ae',
  '#8a8f98',
  '#c9a227',
  '#d1603d',
  '#9b6bb4',
  '#4f7fc5',
  '#b0653a',
]

const STYLE = [
  'text{font:12px system-ui,sans-serif;fill:#333}',
  '.strong{font-weight:600}.end{text-anchor:end}.middle{text-anchor:middle}',
  '.paper{fill:#fff}.grid{stroke:#ddd}',
  '@media(prefers-color-scheme:dark){text{fill:#ddd}.paper{fill:#0d1117}.grid{stroke:#30363d}}',
].join('')

const WIDTH = 860
const LEFT = 290
const RIGHT = 70
const BAR = 16
const GAP = 4
const TITLE = 34

const PANEL_HEIGHT = 260
const PANEL_LEFT = 60
const PANEL_RIGHT = 250

const LINES = [
  'one user by id',
  'first page by id',
  'deep page by id, by cursor',
  'create, on disk',
  'deep page by number',
]

/** The CPU time per request. Each table has a scale of its own, each server its color. */
export function barsOfCpu(tables, title) {
  const parts = tables.map(table => ({
    label: titleOf(table),
    bars: table.servers.map(({ server, cpuMicros }) => ({
      name: SERVERS[server].label,
      value: cpuMicros,
      color: COLORS[Object.keys(SERVERS).indexOf(server) % COLORS.length],
    })),
  }))
  return bars(parts, title)
}

/** The requests per second by the number of services. */
export function barsOfServices(tables) {
  const parts = tables.map(table => ({
    label: titleOf(table),
    bars: table.servers.map(({ server, requestsPerSecond }, index) => ({
      name: SERVERS[server].label,
      value: requestsPerSecond,
      color: COLORS[index],
    })),
  }))
  return bars(parts, 'Requests per second, by the number of services (higher is better)')
}

function bars(parts, title) {
  let y = 44
  const content = []
  for (const part of parts) {
    const most = Math.max(...part.bars.map(({ value }) => value))
    content.push(text(10, y + 16, part.label, 'strong'))
    y += TITLE - 8
    for (const { name, value, color } of part.bars) {
      const length = ((WIDTH - LEFT - RIGHT) * value) / most
      content.push(
        `<rect x="${LEFT}" y="${y}" width="${length.toFixed(1)}" height="${BAR}" fill="${color}"/>`,
        text(LEFT - 8, y + 12, name, 'end'),
        text((LEFT + length + 6).toFixed(1), y + 12, Math.round(value).toLocaleString('en')),
      )
      y += BAR + GAP
    }
    y += 10
  }
  return svg(title, y, content)
}

/** The time of some requests by the number of users, a panel for each engine. Both axes are logarithmic. */
export function linesOfUsers({ sqlite, postgres }) {
  const title = 'Time of one request by the number of users, ms, both axes logarithmic'
  return svg(title, 60 + 2 * (PANEL_HEIGHT + 60), [
    ...panel(sqlite.columns, 'SQLite', 60),
    ...panel(postgres.columns, 'PostgreSQL', 60 + PANEL_HEIGHT + 60),
  ])
}

function panel(columns, name, top) {
  const users = columns.map(column => Math.log10(column.users))
  const [from, to] = [Math.min(...users), Math.max(...users)]
  const x = column =>
    to === from
      ? PANEL_LEFT
      : PANEL_LEFT +
        ((Math.log10(column.users) - from) / (to - from)) * (WIDTH - PANEL_LEFT - PANEL_RIGHT)
  const bottom = top + PANEL_HEIGHT
  // From 0.1 to 1,000 ms.
  const y = ms => bottom - ((Math.log10(ms) + 1) / 4) * (PANEL_HEIGHT - 20)
  const grid = [0.1, 1, 10, 100, 1000].flatMap(ms => [
    `<line x1="${PANEL_LEFT}" x2="${WIDTH - PANEL_RIGHT}" y1="${y(ms)}" y2="${y(ms)}" class="grid"/>`,
    text(PANEL_LEFT - 8, y(ms) + 4, ms.toLocaleString('en'), 'end'),
  ])
  const axis = columns.map(column =>
    text(x(column).toFixed(1), bottom + 18, column.users.toLocaleString('en'), 'middle'),
  )
  // Labels are moved apart where lines end close together.
  const ends = LINES.map((line, index) => ({ line, index, at: y(columns.at(-1).ms[line]) }))
    .toSorted((one, other) => one.at - other.at)
    .reduce((placed, end) => {
      const labelAt = Math.max(end.at, (placed.at(-1)?.labelAt ?? 0) + 15)
      placed.push({ ...end, labelAt })
      return placed
    }, [])
  const lines = ends.flatMap(({ line, index, labelAt }) => {
    const points = columns.map(row => `${x(row).toFixed(1)},${y(row.ms[line]).toFixed(1)}`)
    const color = COLORS[[0, 3, 6, 4, 5][index]]
    return [
      `<polyline points="${points.join(' ')}" fill="none" stroke="${color}" stroke-width="2"/>`,
      `<rect x="${WIDTH - PANEL_RIGHT + 10}" y="${(labelAt - 5).toFixed(1)}" width="10" height="10" fill="${color}"/>`,
      text(WIDTH - PANEL_RIGHT + 26, (labelAt + 4).toFixed(1), line),
    ]
  })
  return [text(10, top - 2, name, 'strong'), ...grid, ...axis, ...lines]
}

function svg(title, height, content) {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title">`,
    `<title id="title">${escaped(title)}</title>`,
    `<style>${STYLE}</style>`,
    `<rect width="${WIDTH}" height="${height}" class="paper"/>`,
    text(10, 24, title, 'strong'),
    ...content,
    '</svg>\n',
  ].join('\n')
}

function text(x, y, content, className) {
  const attribute = className === undefined ? '' : ` class="${className}"`
  return `<text x="${x}" y="${y}"${attribute}>${escaped(content)}</text>`
}

function escaped(content) {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
