import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { endWithTest } from './clean-up-after.ts'
import { findFreePort } from './free-port.ts'
import { temporaryFolder } from './open-test-app.ts'
import { until } from './until.ts'

/** Starts nginx with what `siteOn` puts into its `http` block for a port, until the test ends. Returns the port. */
export async function startNginx(siteOn: (port: number) => string): Promise<number> {
  const folder = temporaryFolder()
  const port = await findFreePort()
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const paths = kinds.map(kind => `${kind}_temp_path ${join(folder, kind)};`)
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; master_process off; pid ${join(folder, 'pid')}; error_log ${join(folder, 'error.log')};
     events {}
     http { access_log off; ${paths.join(' ')}
     ${siteOn(port)} }`,
  )
  mkdirSync(join(folder, 'client_body'))
  const nginx = spawn('nginx', ['-p', folder, '-c', 'nginx.conf'], { stdio: 'ignore' })
  endWithTest(nginx)
  await until(async () => {
    if (nginx.exitCode !== null) throw new Error(readFileSync(join(folder, 'error.log'), 'utf8'))
    return fetch(`http://127.0.0.1:${port}/livez`).then(
      () => true,
      () => false,
    )
  })
  return port
}
