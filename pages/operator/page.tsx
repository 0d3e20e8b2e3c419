import { Bans } from './bans.tsx'
import { Charts } from './charts.tsx'
import { Header, type HeaderProps, placeOf } from './header.tsx'
import { Errors, Refused } from './incidents.tsx'
import { Limits } from './limits.tsx'
import type { PanelProps } from './panel.tsx'
import { Database, Keys, Process, Routes } from './panels.tsx'
import { Tiles } from './tiles.tsx'
import { Users } from './users.tsx'

export interface PageProps extends HeaderProps {
  /** What happened just now; empty for nothing. */
  readonly message: string
}

export function Page({ view, connection, message, actions, hash }: PageProps) {
  const { isUsers, item } = placeOf(hash)
  return (
    <div class={connection.kind}>
      <Header {...{ connection, view, actions, hash }} />
      {view === undefined && (
        <main class="faint">
          {connection.kind === 'locked' ? 'Give the token above.' : 'Waiting for the service…'}
        </main>
      )}
      {view && isUsers && <Users {...{ actions, item }} now={Date.parse(view.status.now)} />}
      {view && !isUsers && <Operations {...{ view, actions }} />}
      <p class="message" id="message" role="status">
        {message !== '' && message}
      </p>
    </div>
  )
}

function Operations({ view, actions }: PanelProps) {
  return (
    <main>
      <Tiles view={view} />
      <Charts view={view} />
      <div class="panels">
        <Limits {...{ view, actions }} />
        <Refused view={view} />
        <Errors {...{ view, actions }} />
        <Bans {...{ view, actions }} />
        <Routes view={view} />
        <Process view={view} />
        <Database view={view} />
        <Keys view={view} />
      </div>
    </main>
  )
}
