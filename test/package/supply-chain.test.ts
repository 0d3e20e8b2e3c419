import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'
import { PROJECT, readProject } from '../support/project.ts'

interface Locked {
  readonly name?: string
  readonly dev?: boolean
  readonly integrity?: string
  readonly hasInstallScript?: boolean
  readonly optional?: boolean
  readonly engines?: Readonly<Record<string, string>>
  readonly link?: boolean
}

interface Component {
  readonly purl: string
  readonly licenses?: readonly {
    readonly license?: { readonly id?: string }
    readonly expression?: string
  }[]
}

const PERMISSIVE = /^(MIT|ISC|0BSD|BSD-3-Clause|Apache-2\.0|\((\S+ OR )*MIT( OR \S+)*\))$/

const { packages }: { packages: Readonly<Record<string, Locked>> } = JSON.parse(
  readProject('package-lock.json'),
)

/** The installed packages, without the workspaces of this project, which are listed as a folder and a link. */
const installed = Object.entries(packages).filter(
  ([path, { link }]) => path.includes('node_modules/') && !link,
)

test('npm run sbom lists what production needs and what the pages contain, each with its licence, also in a checkout without installed packages', async () => {
  const cwd = temporaryFolder()
  mkdirSync(join(cwd, 'scripts'))
  for (const file of ['package.json', 'package-lock.json', '.npmrc', 'scripts/sbom.mjs']) {
    copyFileSync(join(PROJECT, file), join(cwd, file))
  }
  const { stdout } = await promisify(execFile)('npm', ['run', '--silent', 'sbom'], {
    ...{ cwd, maxBuffer: 2 ** 26 },
  })
  const { bomFormat, components }: { bomFormat: string; components: readonly Component[] } =
    JSON.parse(stdout)
  expect(bomFormat).toBe('CycloneDX')
  const notPermissive = components.filter(({ licenses: [found] = [] }) => {
    return !PERMISSIVE.test(found?.expression ?? found?.license?.id ?? '')
  })
  expect(notPermissive).toEqual([])
  const purls = components.map(({ purl }) => decodeURIComponent(purl))
  for (const release of ['12', '13']) {
    expect(purls).toContainEqual(expect.stringMatching(`^pkg:npm/better-sqlite3@${release}\\.`))
  }
  // An alias is in a folder with its own name.
  const names = installed
    .filter(([, { dev }]) => !dev)
    .map(([path, { name }]) => name ?? path.replace(/^.*node_modules\//, ''))
  // The build copies files of these three into the pages.
  const expected = new Set([...names, 'swagger-ui-dist', 'uplot', 'preact'])
  const listed = new Set(purls.map(purl => purl.replace(/^pkg:npm\/(.+)@[^@]+$/, '$1')))
  expect([...listed].sort()).toEqual([...expected].sort())
})

test('package-lock.json pins each package by a digest, and only one runs a script on installation', () => {
  expect(installed.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'))).toEqual([])
  const scripted = installed.filter(([, { hasInstallScript, dev }]) => hasInstallScript && !dev)
  expect(scripted.map(([path]) => path)).toEqual(['node_modules/better-sqlite3-node-20'])
})

test('package-lock.json makes npm skip the release of better-sqlite3 that this Node does not use', () => {
  // npm skips an optional package whose engines do not fit, and takes them from the lockfile. Those of release 12 name
  // newer Node releases too, on which it would be compiled for nothing: `npm update` brings them back, so change them again.
  const enginesOf = (name: string) => packages[`node_modules/${name}`]?.engines
  expect(packages['node_modules/better-sqlite3']?.optional).toBe(true)
  expect(packages['node_modules/better-sqlite3-node-20']?.optional).toBe(true)
  expect(enginesOf('better-sqlite3')).toEqual({ node: '>=22' })
  expect(enginesOf('better-sqlite3-node-20')).toEqual({ node: '20.x' })
})
