import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { installPackages, packPackage, projectWith } from '../support/packed-package.ts'
import { firstBlock, PROJECT, readProject } from '../support/project.ts'

const run = promisify(execFile)

const folder = temporaryFolder(afterAll)
let packed: string
/** By the folder around it. They begin together, because npm waits for the registry. */
const installations = new Map<string | undefined, Promise<void>>()

beforeAll(() => {
  packed = packPackage(folder)
  for (const [name, packages] of Object.entries(INSTALLED)) {
    mkdirSync(join(folder, name))
    installations.set(name, installPackages(join(folder, name), ...packages))
  }
})

/** The folders in which consumers are, and what npm installs there. Without one, they are in the folder of these. */
const INSTALLED = {
  jest29: ['jest@29.7.0'],
  jest30: ['jest@30.5.2'],
  mocha: ['mocha@12.0.3', '@sinonjs/fake-timers@15.5.0'],
}

/** What no server can do without, which is faked alone too. */
const ALONE = ['setImmediate', 'queueMicrotask']

const FAKEABLE = [...ALONE, 'setInterval', 'setTimeout', 'performance', 'hrtime', 'Date']

const WITH_JEST = `
  const fakeable = ${JSON.stringify([...FAKEABLE, 'nextTick'])}
  const clock = {
    alone: ${JSON.stringify([...ALONE, 'nextTick'])},
    use: only => jest.useFakeTimers(only && { doNotFake: fakeable.filter(name => name !== only) }),
    set: ms => jest.setSystemTime(ms),
    pass: ms => jest.advanceTimersByTime(ms),
    end: () => jest.useRealTimers(),
  }
  jest.setTimeout(60_000)`

const WITH_VITEST = `
  import { test, vi } from 'vitest'
  const clock = {
    alone: ${JSON.stringify(ALONE)},
    use: only => vi.useFakeTimers(only && { toFake: [only] }),
    set: ms => vi.setSystemTime(ms),
    pass: ms => vi.advanceTimersByTime(ms),
    end: () => vi.useRealTimers(),
  }
  vi.setConfig({ testTimeout: 60_000 })`

const WITH_SINON = `
  import FakeTimers from '@sinonjs/fake-timers'
  let fake
  const toFake = ${JSON.stringify(FAKEABLE)}
  const clock = {
    alone: ${JSON.stringify(ALONE)},
    use: only => { fake = FakeTimers.install({ toFake: only ? [only] : toFake }) },
    set: ms => fake.setSystemTime(ms),
    pass: ms => fake.tick(ms),
    end: () => fake.uninstall(),
  }
  const test = (name, work) => it(name, work).timeout(60_000)`

const WITH_NODE = `
  import { mock, test } from 'node:test'
  const clock = {
    alone: ['setImmediate'],
    use: only => mock.timers.enable(only && { apis: [only] }),
    set: ms => mock.timers.setTime(ms),
    pass: ms => mock.timers.tick(ms),
    end: () => mock.timers.reset(),
  }`

interface Consumer {
  readonly name: string
  readonly around?: keyof typeof INSTALLED
  readonly module: 'cjs' | 'mjs'
  /** The beginning of a test file, as an ES module. */
  readonly begin: string
  readonly config?: object
  /** Arguments of Node. Files of packages are those of the folder above. */
  readonly args: readonly string[]
}

const JEST = ['../node_modules/jest/bin/jest.js', '-i']
const ESM_JEST = {
  testMatch: ['**/*.test.mjs'],
  moduleFileExtensions: ['mjs', 'js', 'cjs', 'json'],
}
const VITEST = [join(PROJECT, 'node_modules/vitest/vitest.mjs'), 'run', '--max-workers=1']

const CONSUMERS: readonly Consumer[] = [
  ...(['jest29', 'jest30'] as const).map(
    (around): Consumer => ({
      name: around,
      ...{ around, module: 'cjs', begin: WITH_JEST, args: JEST },
      config: { testMatch: ['**/*.test.cjs'] },
    }),
  ),
  {
    name: 'Jest with ES modules',
    ...{ around: 'jest30', module: 'mjs', config: ESM_JEST },
    begin: `import { jest } from '@jest/globals'${WITH_JEST}`,
    args: ['--experimental-vm-modules', ...JEST],
  },
  ...(['cjs', 'mjs'] as const).flatMap((module): Consumer[] => [
    {
      name: `Mocha, ${module}`,
      ...{ around: 'mocha', module, begin: WITH_SINON },
      args: ['../node_modules/mocha/bin/mocha.js', `*.test.${module}`],
    },
    {
      name: `node:test, ${module}`,
      ...{ module, begin: WITH_NODE },
      args: ['--test', `0.test.${module}`, `1.test.${module}`],
    },
  ]),
  ...[[], ['--no-isolate'], ['--pool=threads']].map(
    (options): Consumer => ({
      name: `vitest ${options}`,
      ...{ module: 'mjs', begin: WITH_VITEST, args: [...VITEST, ...options] },
    }),
  ),
]

/** The program of README.md, as a test. */
const [importsOfExample = '', example = ''] = firstBlock(readProject('README.md'), 'js').split(
  /\n\n/,
)

/** Two test files of the consumer, for one process. */
function testFiles({ module, begin }: Consumer): readonly string[] {
  const first = `${begin.replaceAll(/^ {2}/gm, '')}
${importsOfExample}
import checks from './checks.cjs'

const given = { createUserRecords, request }
test('the example of README.md', async () => {
  ${example}
})
test('the service', () => checks.checkUse(given))`
  const second = `${first}
test('answers under fake timers', () => checks.checkAnswers(given, clock))
test('dates', () => checks.checkDates(given, clock))`
  return [first, second].map(text =>
    module === 'mjs'
      ? text
      : text.replaceAll(/^import (.+) from ('.+')$/gm, 'const $1 = require($2)'),
  )
}

test.each(CONSUMERS)('the library works in $name', async consumer => {
  await installations.get(consumer.around)
  const others = ['supertest', ...(consumer.begin === WITH_VITEST ? ['vitest'] : [])]
  const cwd = projectWith(packed, join(folder, consumer.around ?? ''), others)
  cpSync(new URL('consumers/checks.cjs', import.meta.url), join(cwd, 'checks.cjs'))
  writeFileSync(join(cwd, 'package.json'), JSON.stringify({ jest: consumer.config }))
  for (const [index, text] of testFiles(consumer).entries()) {
    writeFileSync(join(cwd, `${index}.test.${consumer.module}`), text)
  }
  const { stdout, stderr } = await run(process.execPath, [...consumer.args], {
    ...{ cwd, timeout: 120_000, env: { PATH: process.env.PATH, CI: '1', NO_COLOR: '1' } },
  })
  // Jest and Mocha, node:test, vitest.
  expect(stdout + stderr).toMatch(/\b6 pass(?:ed|ing)|^# pass 6$|ℹ pass 6/m)
})
