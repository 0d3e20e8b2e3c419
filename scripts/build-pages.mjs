// Puts the files of the pages into dist: those of GET /docs, with the parts of swagger-ui-dist that it needs, and the page of
// GET / into dist/docs; the page of the management port, compiled, with Preact and uPlot, into dist/operator.
// Each file is stored both plain and compressed, so that the service never has to compress one.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const { resolve } = createRequire(import.meta.url)
const PROJECT = fileURLToPath(new URL('../', import.meta.url))
const PAGES = join(PROJECT, 'pages')
const OPERATOR = join(PAGES, 'operator')
const SWAGGER_UI = dirname(resolve('swagger-ui-dist/package.json'))
const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
const UPLOT = dirname(resolve('uplot/package.json'))
const PREACT = dirname(resolve('preact/package.json'))

/** The modules of Preact that the page imports, by the names under which it imports them. */
const PREACT_MODULES = {
  preact: 'dist/preact.mjs',
  'preact/hooks': 'hooks/dist/hooks.mjs',
  'preact/jsx-runtime': 'jsx-runtime/dist/jsxRuntime.mjs',
}

packDocs()
packOperator()

function packDocs() {
  const shipped = [
    ...['index.css', 'swagger-ui.css', 'swagger-ui-bundle.js'],
    ...['swagger-ui-bundle.js.LICENSE.txt', 'LICENSE', 'NOTICE'],
  ]
  packPages(
    'docs',
    [
      ...['shared/icon.svg', 'shared/shared.css', 'docs/docs.css', 'docs/start.js'].map(name =>
        fileOf(join(PAGES, name)),
      ),
      ...['home/home.css', 'home/commands.js'].map(name => fileOf(join(PAGES, name))),
      ...shipped.map(name => fileOf(join(SWAGGER_UI, name))),
    ],
    { 'index.html': join(PAGES, 'docs/index.html'), 'home.html': join(PAGES, 'home/index.html') },
  )
}

function packOperator() {
  const compiled = mkdtempSync(join(tmpdir(), 'operator-page-'))
  try {
    // It imports types of the service, so the compiler keeps the paths from the project's folder on.
    const tsc = join(PROJECT, 'node_modules/typescript/bin/tsc')
    execFileSync(
      process.execPath,
      [tsc, '-p', OPERATOR, '--noEmit', 'false', '--outDir', compiled],
      {
        stdio: 'inherit',
      },
    )
    const scripts = join(compiled, 'pages/operator')
    const modules = [
      ...readdirSync(scripts).map(name => ({ name, path: join(scripts, name) })),
      ...Object.entries(PREACT_MODULES).map(([name, path]) => ({
        name: scriptOf(name),
        path: join(PREACT, path),
      })),
    ].map(({ name, path }) => ({ name, bytes: Buffer.from(resolveImports(path)) }))
    const links = modules.map(
      ({ name }) => `<link rel="modulepreload" href="assets/{release}/${name}">`,
    )
    packPages(
      'operator',
      [
        ...modules,
        fileOf(join(PAGES, 'shared/shared.css')),
        ...['icon.svg', 'page.css', 'users.css'].map(name => fileOf(join(OPERATOR, name))),
        ...['uPlot.iife.min.js', 'uPlot.min.css'].map(name => fileOf(join(UPLOT, 'dist', name))),
        { ...fileOf(join(UPLOT, 'LICENSE')), name: 'uPlot.LICENSE' },
        { ...fileOf(join(PREACT, 'LICENSE')), name: 'preact.LICENSE' },
      ],
      { 'index.html': join(OPERATOR, 'index.html') },
      { modules: links.join('\n    ') },
    )
  } finally {
    rmSync(compiled, { recursive: true })
  }
}

/** The file of a module of Preact, such as `preact-hooks.js`. */
function scriptOf(name) {
  return `${name.replace('/', '-')}.js`
}

/** The text of a module that imports files beside it and no packages, because a browser knows no packages. */
function resolveImports(path) {
  return readFileSync(path, 'utf8')
    .replace(/\bfrom ?["'](preact(?:\/[\w-]+)?)["']/g, (_, name) => `from "./${scriptOf(name)}"`)
    .replace(/\n\/\/# sourceMappingURL=.*\n?$/, '\n')
}

function fileOf(path) {
  return { name: basename(path), bytes: readFileSync(path) }
}

/**
 * Writes the files that pages load into `dist/FOLDER/RELEASE`, compressed into `dist/FOLDER/RELEASE.gz`, and last the pages into
 * `dist/FOLDER`.
 */
function packPages(folder, files, pages, values = {}) {
  const digest = createHash('sha256')
  for (const { name, bytes } of files) digest.update(`${name}\n${bytes.length}\n`).update(bytes)
  const release = digest.digest('hex').slice(0, 16)
  const target = join(PROJECT, 'dist', folder)
  rmSync(target, { recursive: true, force: true })
  mkdirSync(join(target, release), { recursive: true })
  mkdirSync(join(target, `${release}.gz`))
  for (const { name, bytes } of files) {
    writeFileSync(join(target, release, name), bytes)
    writeFileSync(join(target, `${release}.gz`, name), gzipSync(bytes, { level: 9 }))
  }
  for (const [name, path] of Object.entries(pages)) {
    let html = readFileSync(path, 'utf8')
    for (const [key, value] of Object.entries({ ...values, release, version })) {
      html = html.replaceAll(`{${key}}`, value)
    }
    writeFileSync(join(target, name), html)
  }
}
