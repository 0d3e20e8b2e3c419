import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/open-test-app.ts'

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

interface Package {
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
}

interface Lockfile {
  readonly packages: Readonly<
    Record<
      string,
      {
        dev?: boolean
        integrity?: string
        resolved?: string
        hasInstallScript?: boolean
        link?: boolean
      }
    >
  >
}

/** What is installed, less the workspaces of this project itself, which stand there as a folder and a link. */
function installedPackages() {
  const { packages } = read<Lockfile>('package-lock.json')
  return Object.entries(packages).filter(
    ([path, { link }]) => path.includes('node_modules/') && !link,
  )
}

function read<T>(file: string): T {
  return JSON.parse(readFileSync(join(PROJECT, file), 'utf8')) as T
}

test('npm run sbom lists what production needs and nothing else, in a checkout where nothing is installed', async () => {
  const cwd = temporaryFolder()
  mkdirSync(join(cwd, 'scripts'))
  for (const file of ['package.json', 'package-lock.json', '.npmrc', 'scripts/sbom.mjs']) {
    copyFileSync(join(PROJECT, file), join(cwd, file))
  }
  const { stdout } = await promisify(execFile)('npm', ['run', '--silent', 'sbom'], {
    cwd,
    maxBuffer: 2 ** 26,
  })
  const bom = JSON.parse(stdout)
  expect(bom).toMatchObject({ bomFormat: 'CycloneDX' })
  const components: readonly { name: string; version: string; purl: string }[] = bom.components
  const listed = new Set(
    components.map(({ purl }) => decodeURIComponent(purl).replace(/^pkg:npm\/(.+)@[^@]+$/, '$1')),
  )

  const { dependencies, devDependencies } = read<Package>('package.json')
  expect([...listed]).toEqual(expect.arrayContaining(Object.keys(dependencies)))
  expect(listed).toContain('express')
  expect(Object.keys(devDependencies).filter(name => listed.has(name))).toEqual([])
  const locked = installedPackages().filter(([, { dev }]) => !dev)
  const names = locked.map(([path]) =>
    path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length),
  )
  expect([...listed].sort()).toEqual([...new Set(names)].sort())
})

test('package-lock.json pins each package by a digest, and one alone runs a script when it is installed', () => {
  const entries = installedPackages()
  expect(entries.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'))).toEqual([])
  const scripted = entries.filter(([, { hasInstallScript, dev }]) => hasInstallScript && !dev)
  expect(scripted.map(([path]) => path)).toEqual(['node_modules/better-sqlite3'])
})
