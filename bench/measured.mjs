// The results of the benchmarks, in measured.json. Each benchmark replaces its own part.
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { writeDocuments } from './documents.mjs'

const FILE = new URL('./measured.json', import.meta.url)

/** Where and when a benchmark runs. `load` is the load average before it. */
export function currentRun() {
  return {
    node: process.version,
    cpus: availableParallelism(),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    date: new Date().toISOString().slice(0, 10),
    load: Math.round(loadavg()[0] * 10) / 10,
  }
}

export function readMeasured() {
  return JSON.parse(readFileSync(FILE, 'utf8'))
}

/** Keeps the part `name` of one engine, and writes the documents again. */
export function writePart(name, engine, part) {
  const measured = readMeasured()
  writeMeasured({ ...measured, [name]: { ...measured[name], [engine]: part } })
}

/** Keeps these tables in place of those of the same group and workload, and writes the documents again. */
export function writeTables(tables) {
  const measured = readMeasured()
  const kept = measured.compare.filter(
    old => !tables.some(({ group, workload }) => group === old.group && workload === old.workload),
  )
  writeMeasured({ ...measured, compare: [...kept, ...tables] })
}

function writeMeasured(measured) {
  writeFileSync(FILE, `${JSON.stringify(measured, roundNumber, 2)}\n`)
  writeDocuments(readMeasured())
}

/** Five digits are more than a measurement is exact. */
function roundNumber(_key, value) {
  return typeof value === 'number' && !Number.isInteger(value)
    ? Number(value.toPrecision(5))
    : value
}
