// The documents and charts that are made from measured.json.
import { readFileSync, writeFileSync } from 'node:fs'
import { barsOfCpu, barsOfServices, linesOfUsers } from './chart.mjs'
import { replacePart } from './markdown.mjs'
import { reportOf, sortTables } from './report.mjs'
import { scalingParts } from './scaling.mjs'
import { scaleTable, searchTable, transferTable, wordsTable } from './tables.mjs'

const DOCS = new URL('../docs/', import.meta.url)

const CHARTS = [
  ['CPU time per request on SQLite, by workload and server', 'performance.svg'],
  ['CPU time per request on PostgreSQL, by workload and server', 'performance-postgres.svg'],
  ['Requests per second, by the number of services', 'performance-services.svg'],
  ['Time of requests, by the number of users', 'performance-users.svg'],
]

const TABLES = {
  scale: scaleTable,
  search: searchTable,
  words: wordsTable,
  transfer: transferTable,
}

/** The content of each file in docs/, by its name. */
export function makeDocuments(measured) {
  const { scale } = measured
  const compare = sortTables(measured.compare)
  return {
    'performance.md': replaceParts('performance.md', performanceParts(measured)),
    'scaling.md': replaceParts('scaling.md', scalingParts(measured)),
    'performance.svg': barsOfCpu(
      compare.filter(({ group }) => group === 'sqlite'),
      'CPU time per request on SQLite, µs (lower is better)',
    ),
    'performance-postgres.svg': barsOfCpu(
      compare.filter(({ group }) => group === 'postgres'),
      'CPU time per request on PostgreSQL, with that of the server, µs (lower is better)',
    ),
    'performance-services.svg': barsOfServices(
      compare.filter(({ group }) => ['services', 'postgresServices'].includes(group)),
    ),
    'performance-users.svg': linesOfUsers(scale),
  }
}

export function writeDocuments(measured) {
  for (const [name, content] of Object.entries(makeDocuments(measured))) {
    writeFileSync(new URL(name, DOCS), content)
  }
}

function performanceParts(measured) {
  const charts = CHARTS.map(([text, file]) => `![${text}](${file})`).join('\n\n')
  const parts = { measured: `${charts}\n\n${reportOf(measured.compare)}` }
  for (const [name, tableOf] of Object.entries(TABLES)) {
    for (const [engine, part] of Object.entries(measured[name])) {
      parts[`${name} ${engine}`] = tableOf(part)
    }
  }
  return parts
}

function replaceParts(file, parts) {
  return Object.entries(parts).reduce(
    (text, [name, content]) => replacePart(text, name, content),
    readFileSync(new URL(file, DOCS), 'utf8'),
  )
}
