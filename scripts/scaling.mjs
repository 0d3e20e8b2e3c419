// Computes docs/scaling.md from bench/measured.json. Usage: npm run scaling -- [--write], or with other assumptions: --help.
import { parseArgs } from 'node:util'
import { writeDocuments } from '../bench/documents.mjs'
import { readMeasured } from '../bench/measured.mjs'
import { ASSUMPTIONS, scalingParts } from '../bench/scaling.mjs'

const { values } = parseArgs({
  options: {
    ...Object.fromEntries(ASSUMPTIONS.map(([option]) => [option, { type: 'string' }])),
    write: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

if (values.help) {
  console.log('npm run scaling -- [OPTION ...]: computes the tables of docs/scaling.md\n')
  for (const [option, value, meaning] of ASSUMPTIONS) {
    console.log(`  --${option} NUMBER`.padEnd(30), `${meaning} (${value})`)
  }
  console.log('  --write'.padEnd(30), 'write the documents again, with the defaults')
} else if (values.write) {
  if (ASSUMPTIONS.some(([option]) => values[option] !== undefined)) {
    fail('--write takes no other assumptions')
  }
  writeDocuments(readMeasured())
} else {
  const assumed = ASSUMPTIONS.map(([option, value]) => [option, positive(option, value)])
  const parts = scalingParts(readMeasured(), Object.fromEntries(assumed))
  console.log(Object.values(parts).join('\n\n'))
}

function positive(option, byDefault) {
  const number = Number(values[option] ?? byDefault)
  const most = option === 'use' ? 1 : 1e9
  if (number > 0 && number <= most) return number
  fail(`--${option} must be a number above 0 and up to ${most}`)
}

function fail(message) {
  console.error(message)
  process.exit(2)
}
