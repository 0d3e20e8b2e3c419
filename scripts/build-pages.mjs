// Puts the files of the pages into dist: those of GET /docs, with the parts of swagger-ui-dist that it needs, and the page of
// GET / into dist/docs; the page of the management port, compiled, with uPlot, into dist/operator.
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
        join(PAGES, name),
      ),
      ...['home/home.css', 'home/copy.js'].map(name => join(PAGES, name)),
      ...shipped.map(name => join(SWAGGER_UI, name)),
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
    const uPlot = ['dist/uPlot.iife.min.js', 'dist/uPlot.min.css', 'LICENSE']
    packPages(
      'operator',
      [
        ...readdirSync(scripts).map(name => join(scripts, name)),
        ...['icon.svg', 'layout.css', 'look.css'].map(name => join(OPERATOR, name)),
        ...uPlot.map(name => join(UPLOT, name)),
      ],
      { 'index.html': join(OPERATOR, 'index.html') },
    )
  } finally {
    rmSync(compiled, { recursive: true })
  }
}

/**
 * Writes the files that pages load into `dist/FOLDER/RELEASE`, compressed into `dist/FOLDER/RELEASE.gz`, and last the pages into
 * `dist/FOLDER`.
 */
function packPages(folder, paths, pages) {
  const files = paths.map(path => ({ name: basename(path), bytes: readFileSync(path) }))
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
    const html = readFileSync(path, 'utf8')
    writeFileSync(
      join(target, name),
      html.replaceAll('{release}', release).replaceAll('{version}', version),
    )
  }
}
