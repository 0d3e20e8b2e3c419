// Computes docs/scaling.md from bench/measured.json. Usage: npm run scaling -- [--write], or with other assumptions: --help.
import { parseArgs } from 'node:util'
import { writeDocuments } from '../bench/documents.mjs'
import { readMeasured } from '../bench/measured.mjs'
import { ASSUMED, scalingParts } from '../bench/scaling.mjs'

const OPTIONS = {
  'cpu-hour': ['cpuHour', 'price of an hour of one CPU, in dollars'],
  'disk-month': ['diskMonth', 'price of a gigabyte of disk for a month, in dollars'],
  'requests-per-day': ['requestsPerUserDay', 'requests of one stored user on one day'],
  peak: ['peak', 'requests of the busiest second, divided by the average'],
  use: ['use', 'how far a CPU is used in that second, above 0 and up to 1'],
  'cell-cpus': ['cellCores', 'CPUs of the database server of one cell'],
  'restore-hours': ['restoreHours', 'longest restore of one cell'],
}

const { values } = parseArgs({
  options: {
    ...Object.fromEntries(Object.keys(OPTIONS).map(name => [name, { type: 'string' }])),
    write: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

if (values.help) {
  console.log('npm run scaling -- [OPTION ...]: computes the tables of docs/scaling.md\n')
  for (const [name, [key, meaning]] of Object.entries(OPTIONS)) {
    console.log(`  --${name} NUMBER`.padEnd(30), `${meaning} (${ASSUMED[key]})`)
  }
  console.log('  --write'.padEnd(30), 'write the documents again, with the defaults')
} else {
  const changed = Object.keys(OPTIONS).filter(name => values[name] !== undefined)
  if (values.write && changed.length > 0) fail('--write takes no other assumptions')
  const assumed = { ...ASSUMED }
  for (const name of changed) assumed[OPTIONS[name][0]] = positive(name)
  const measured = readMeasured()
  if (values.write) writeDocuments(measured)
  else console.log(Object.values(scalingParts(measured, assumed)).join('\n\n'))
}

function positive(name) {
  const number = Number(values[name])
  const most = name === 'use' ? 1 : 1e9
  if (number > 0 && number <= most) return number
  fail(`--${name} must be a number above 0 and up to ${most}`)
}

function fail(message) {
  console.error(message)
  process.exit(2)
}
