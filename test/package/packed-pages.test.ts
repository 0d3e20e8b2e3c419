import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

/** The files of each folder, without what the build adds to their names. */
const PACKED: Readonly<Record<string, string[]>> = {
  docs: [
    ...['assets.json', 'index.html', 'home.html', 'home.css', 'icon.svg', 'index.css', 'start.js'],
    ...['swagger-ui.css', 'swagger-ui-bundle.js', 'swagger-ui-bundle.js.gz'],
    ...['LICENSE', 'NOTICE', 'swagger-ui-bundle.js.LICENSE.txt'],
  ],
  operator: ['assets.json', 'index.html', 'start.js.gz', 'uPlot.iife.min.js', 'LICENSE'],
}

test('the npm package contains the pages, their files and the licences', () => {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', '--silent']
  const stdout = execFileSync('npm', args, { cwd: PROJECT, maxBuffer: 2 ** 24, encoding: 'utf8' })
  const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }]
  for (const [folder, names] of Object.entries(PACKED)) {
    const packed = files.filter(({ path }) => path.startsWith(`dist/${folder}/`))
    expect(packed.map(({ path }) => path.slice(path.lastIndexOf('/') + 1))).toEqual(
      expect.arrayContaining(names),
    )
  }
})
