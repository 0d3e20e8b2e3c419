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
  writeMeasured(withPart(readMeasured(), name, engine, part))
}

/** Keeps the tables that were measured, and writes the documents again. */
export function writeTables(tables) {
  writeMeasured(withTables(readMeasured(), tables))
}

/** All results, with another part `name` of one engine. */
export function withPart(measured, name, engine, part) {
  return { ...measured, [name]: { ...measured[name], [engine]: part } }
}

/** All results, with these tables in place of those of the same group and workload. */
export function withTables(measured, tables) {
  const isReplaced = old => tables.some(table => isSameTable(table, old))
  const kept = measured.compare.filter(table => !isReplaced(table))
  return { ...measured, compare: [...kept, ...tables] }
}

function isSameTable(one, other) {
  return one.group === other.group && one.workload === other.workload
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
