import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const PROJECT = fileURLToPath(new URL('..', import.meta.url))

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')

const load = (name: string) => import(new URL(`../bench/${name}.mjs`, import.meta.url).href)

const scaling = (...args: readonly string[]) =>
  promisify(execFile)('node', ['scripts/scaling.mjs', ...args], { cwd: PROJECT })

test('the documents and charts are what bench/measured.json says', async () => {
  const { makeDocuments } = await load('documents')
  const documents: Record<string, string> = makeDocuments(JSON.parse(read('bench/measured.json')))
  const charts = readdirSync(`${PROJECT}/docs`).filter(name => name.endsWith('.svg'))
  expect(Object.keys(documents).toSorted()).toEqual(
    [...charts, 'performance.md', 'scaling.md'].toSorted(),
  )
  for (const [name, content] of Object.entries(documents)) {
    expect(read(`docs/${name}`) === content, `npm run scaling -- --write changes ${name}`).toBe(
      true,
    )
    expect(content).not.toMatch(/NaN|undefined|Infinity/)
  }
})

test('each chart follows the color scheme and is shown in docs/performance.md', () => {
  const charts = readdirSync(`${PROJECT}/docs`).filter(name => name.endsWith('.svg'))
  expect(charts.length).toBeGreaterThan(3)
  for (const chart of charts) {
    expect(read(`docs/${chart}`)).toContain('@media(prefers-color-scheme:dark)')
    expect(read('docs/performance.md')).toContain(`](${chart})`)
  }
})

test('a table of which one server was not measured is not complete', async () => {
  const { isComplete } = await load('report')
  const rows = (...servers: readonly string[]) => servers.map(server => ({ server }))
  const table = (...servers: readonly string[]) => ({
    group: 'services',
    workload: 'read',
    servers: rows(...servers),
  })
  expect(isComplete(table('service', 'services-2', 'services-4'))).toBe(true)
  expect(isComplete(table('service', 'services-2'))).toBe(false)
  expect(isComplete(table('services-2', 'services-4'))).toBe(false)
})

test('a benchmark replaces its own results and keeps all others', async () => {
  const { withPart, withTables } = await load('measured')
  const [read, create] = ['read', 'create'].map(workload => ({ group: 'sqlite', workload }))
  const compare = [read, create, { group: 'postgres', workload: 'read' }]
  const measured = { compare, scale: { sqlite: 1, postgres: 2 }, search: { sqlite: 3 } }
  expect(withPart(measured, 'scale', 'postgres', 4)).toEqual({
    ...measured,
    scale: { sqlite: 1, postgres: 4 },
  })
  const renewed = { ...read, servers: [] }
  expect(withTables(measured, [renewed])).toEqual({
    ...measured,
    compare: [create, compare[2], renewed],
  })
})

test('the parts of a document are replaced between their marks, and nothing else', async () => {
  const { replacePart } = await load('markdown')
  const text = 'before\n<!-- one: begin -->\nold\n<!-- one: end -->\nbehind'
  expect(replacePart(text, 'one', '$& new')).toBe(
    'before\n<!-- one: begin -->\n\n$& new\n\n<!-- one: end -->\nbehind',
  )
  expect(() => replacePart(text, 'two', '')).toThrow('<!-- two: begin -->')
  expect(() => replacePart(text + text, 'one', '')).toThrow('once')
})

test('npm run scaling computes with other assumptions and refuses nonsense', async () => {
  const cost = async (...args: readonly string[]) => {
    const { stdout } = await scaling(...args)
    return stdout.split('\n').find(line => line.startsWith('| 1 billion | 115,741 |'))
  }
  const [usual, dear] = [await cost(), await cost('--cpu-hour', '0.4')]
  expect(usual).toBeDefined()
  expect(dear).toBeDefined()
  expect(dear).not.toBe(usual)
  for (const args of [
    ['--peak', '0'],
    ['--use', '2'],
    ['--cpu-hour', 'x'],
    ['--write', '--peak', '3'],
  ]) {
    await expect(scaling(...args)).rejects.toMatchObject({ code: 2 })
  }
}, 180_000)
