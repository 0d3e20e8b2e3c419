// The options of the command line of a benchmark.
import { parseArgs } from 'node:util'

const ENGINES = ['sqlite', 'postgres']

/**
 * Reads the options: whole `numbers`, by their default, least and most; `lists`, by what may be in them, which is all by
 * default; `--write`. With `users`, also `--engine`, and any arguments as numbers of users, by their defaults, least and
 * most. Ends the process with 2 if one of them is wrong.
 */
export function readOptions({ numbers = {}, lists = {}, users }) {
  const names = [...Object.keys({ ...numbers, ...lists }), ...(users ? ['engine'] : [])]
  const { values, positionals } = parseArgs({
    options: {
      ...Object.fromEntries(names.map(name => [name, { type: 'string' }])),
      write: { type: 'boolean', default: false },
    },
    allowPositionals: users !== undefined,
  })
  for (const [name, [byDefault, least, most]] of Object.entries(numbers)) {
    values[name] = wholeNumber(`--${name}`, values[name] ?? byDefault, least, most)
  }
  for (const [name, known] of Object.entries(lists)) {
    values[name] = values[name] === undefined ? known : chosen(name, values[name], known)
  }
  if (users === undefined) return values
  const [byDefault, least, most] = users
  const [engine] = chosen('engine', values.engine ?? 'sqlite', ENGINES)
  const sizes = positionals.length === 0 ? byDefault : positionals
  return { ...values, engine, sizes: sizes.map(size => wholeNumber('USERS', size, least, most)) }
}

function wholeNumber(name, value, least, most) {
  const number = Number(value)
  if (Number.isInteger(number) && number >= least && number <= most) return number
  return fail(`${name} must be a whole number from ${least} to ${most}`)
}

function chosen(name, value, known) {
  const keys = value.split(',')
  const unknown = keys.filter(key => !known.includes(key))
  if (unknown.length === 0) return keys
  return fail(`--${name}: there is no ${unknown.join(', ')}; known are ${known.join(', ')}`)
}

/** Ends the process. */
export function fail(message) {
  console.error(message)
  process.exit(2)
}
